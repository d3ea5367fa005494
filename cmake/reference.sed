# What Doxygen reads of a header: what stands behind a member after // describes it; of what the
# compiler writes itself, and of what is deleted, there is nothing to say.
s@^([^/]*[;,{]) *// @\1  ///< @
/^ *(friend |constexpr |explicit )*[^()]*(operator==|operator=|operator<=>)?\(.*\)( const| noexcept)* = (default|delete);/s@.*@@
