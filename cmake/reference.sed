# What Doxygen reads of a header: what stands behind a member after // describes it; of what the
# compiler writes itself, and of what is deleted, there is nothing to say.
s@^([^/]*[;,{}]) *///?<? @\1  ///< @
/^ *(friend |constexpr |explicit )*[^()]*(operator==|operator=|operator<=>)?\(.*\)( const| noexcept)* = (default|delete);/s@.*@@
# It describes each of several members of one declaration.
:next
s@^(.*\*/ | *)((static |constexpr |inline )*[A-Za-z_][A-Za-z0-9_:]*(<[^<>]*>)?) ([a-z_0-9]+)( = [^,;(){}]*|\{\})?, ([a-z_0-9].*;  ///< (.*))$@\1\2 \5\6; /**< \8 */ \2 \7@
tnext
