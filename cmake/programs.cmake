# SPDX-License-Identifier: Apache-2.0
# How the project's own programs (tests, examples, benchmarks) are compiled and run.

find_program(ZERO_CCACHE ccache)
mark_as_advanced(ZERO_CCACHE)
if(ZERO_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${ZERO_CCACHE})
endif()

set(CMAKE_CXX_EXTENSIONS OFF)

# Results are compared bit by bit, so that no multiplication may be contracted with an addition.
add_library(zero_program INTERFACE)
target_link_libraries(zero_program INTERFACE zero::zero)
target_compile_options(zero_program INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror
                                              -ffp-contract=off)
# The compiler of a machine with memory need not collect its garbage: a tenth of its time.
cmake_host_system_information(RESULT memory QUERY TOTAL_PHYSICAL_MEMORY)
if(memory GREATER 12000 AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(zero_no_garbage --param=ggc-min-heapsize=2000000)
  target_compile_options(zero_program INTERFACE ${zero_no_garbage})
endif()

# Adds one test. Its command prints "zero-cases: declared N" and then "zero-cases: passed N"; with
# these scripts/test.sh counts what ran. SECONDS bounds a run, five times that under sanitizers.
function(zero_test name)
  cmake_parse_arguments(PARSE_ARGV 1 test "" "SECONDS;CORES" "COMMAND")
  if(NOT test_SECONDS)
    set(test_SECONDS 120)
  endif()
  if(CMAKE_CXX_FLAGS MATCHES "-fsanitize")
    math(EXPR test_SECONDS "5 * ${test_SECONDS}")
  endif()
  if(NOT test_CORES)
    set(test_CORES 1)
  endif()
  add_test(NAME ${name} COMMAND bash ${test_COMMAND})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${test_SECONDS} PROCESSORS ${test_CORES})
  # What takes longest begins first, so that nothing waits for it alone at the end.
  set(longest cuda_module cuda_races_race cuda_one_device_module cuda_module_failure
              checkpoint_crash checkpoint_damage checkpoint_module checkpoint_offload
              checkpoint_random_resume schedule_threads schedule_mutation schedule_simulate
              module_cases_wires module_equivalence module_equivalence_grid
              module_equivalence_options module_random_training tree_headers tree_consumers)
  if(name IN_LIST longest)
    set_tests_properties(${name} PROPERTIES COST 1000)
  endif()
endfunction()
