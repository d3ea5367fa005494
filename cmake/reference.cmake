# SPDX-License-Identifier: Apache-2.0
# The target `reference` makes the reference of all public names with Doxygen, in BUILD/reference.
find_program(ZERO_DOXYGEN doxygen)
mark_as_advanced(ZERO_DOXYGEN)
if(NOT ZERO_DOXYGEN)
  message(STATUS "Not built, as doxygen is not here: reference")
  return()
endif()
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/Doxyfile CONTENT [[
@INCLUDE = cmake/Doxyfile
PROJECT_NUMBER = @PROJECT_VERSION@
OUTPUT_DIRECTORY = "@PROJECT_BINARY_DIR@/reference"
]] @ONLY)
add_custom_target(reference COMMAND ${ZERO_DOXYGEN} ${PROJECT_BINARY_DIR}/Doxyfile
                  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} VERBATIM
                  COMMENT "Reference in ${PROJECT_BINARY_DIR}/reference/html/index.html")
