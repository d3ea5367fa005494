# SPDX-License-Identifier: Apache-2.0
# zero::checkpoint, for programs that include <zero/checkpoint.hpp>, where libxxhash is installed.
find_path(ZERO_XXHASH_INCLUDE xxhash.h)
find_library(ZERO_XXHASH_LIBRARY xxhash)
mark_as_advanced(ZERO_XXHASH_INCLUDE ZERO_XXHASH_LIBRARY)
if(ZERO_XXHASH_INCLUDE AND ZERO_XXHASH_LIBRARY AND NOT TARGET zero::checkpoint)
  add_library(zero::checkpoint INTERFACE IMPORTED GLOBAL)
  target_include_directories(zero::checkpoint SYSTEM INTERFACE ${ZERO_XXHASH_INCLUDE})
  target_link_libraries(zero::checkpoint INTERFACE zero::zero ${ZERO_XXHASH_LIBRARY})
endif()
