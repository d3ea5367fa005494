# SPDX-License-Identifier: Apache-2.0
# How nvcc compiles tests and examples, where it and the headers of NCCL are: zero_cuda_object. And
# whether the header of cuBLAS is there.
if(NOT CUDAToolkit_FOUND OR NOT CUDAToolkit_NVCC_EXECUTABLE OR NOT ZERO_NCCL_INCLUDE)
  return()
endif()
find_path(ZERO_CUBLAS_INCLUDE cublas_v2.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
mark_as_advanced(ZERO_CUBLAS_INCLUDE)

# Flags of this build for nvcc's host compiler; a comma would end one for -Xcompiler.
separate_arguments(flags UNIX_COMMAND "${CMAKE_CXX_FLAGS}")
list(APPEND flags ${zero_no_garbage})
if(CMAKE_BUILD_TYPE)
  string(TOUPPER ${CMAKE_BUILD_TYPE} type)
  separate_arguments(more UNIX_COMMAND "${CMAKE_CXX_FLAGS_${type}}")
  list(APPEND flags ${more})
endif()
set(host_flags)
foreach(flag ${flags})
  if(flag MATCHES "^(-f(no-)?sanitize=)(.*)$")
    set(option ${CMAKE_MATCH_1})
    string(REPLACE "," ";" kinds ${CMAKE_MATCH_3})
    foreach(kind ${kinds})
      list(APPEND host_flags -Xcompiler=${option}${kind})
    endforeach()
  else()
    list(APPEND host_flags -Xcompiler=${flag})
  endif()
endforeach()
if("-fsanitize=thread" IN_LIST flags)
  # A variable that nvcc's stubs write and nobody reads, from all threads, is optimised away.
  list(APPEND host_flags -Xcompiler=-O1)
endif()
set_property(GLOBAL PROPERTY zero_nvcc_command
             ${CMAKE_CXX_COMPILER_LAUNCHER} ${CUDAToolkit_NVCC_EXECUTABLE}
             -ccbin=${CMAKE_CXX_COMPILER} -std=c++20 -fmad=false -no-compress
             ${host_flags} -Xcompiler=-ffp-contract=off)

# Compiles a .cu file to an object, whose name it leaves in `result`: PTX alone, which the emulator
# interprets and a driver compiles, for GPUs from compute capability ARCHITECTURE / 10 on.
function(zero_cuda_object result source)
  cmake_parse_arguments(PARSE_ARGV 2 object "" "ARCHITECTURE" "FLAGS")
  if(NOT object_ARCHITECTURE)
    set(object_ARCHITECTURE 90)
  endif()
  set(ptx compute_${object_ARCHITECTURE})
  cmake_path(ABSOLUTE_PATH source)
  cmake_path(GET source FILENAME file)
  cmake_path(GET source PARENT_PATH folder)
  cmake_path(GET folder FILENAME folder)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/${folder}_${file}.o)
  get_property(nvcc GLOBAL PROPERTY zero_nvcc_command)
  add_custom_command(
    OUTPUT ${object}
    COMMAND ${nvcc} -gencode=arch=${ptx},code=${ptx} ${object_FLAGS} -DBOOST_TEST_DYN_LINK
            -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR}/tests -isystem=${ZERO_NCCL_INCLUDE} -MD -MF ${object}.d
            -c ${source} -o ${object}
    DEPENDS ${source} DEPFILE ${object}.d
    COMMENT "Compiling ${folder}/${file} with nvcc" VERBATIM)
  set(${result} ${object} PARENT_SCOPE)
endfunction()
