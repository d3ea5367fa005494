# SPDX-License-Identifier: Apache-2.0
# zero::cuda, for programs that include <zero/cuda.hpp>, where the CUDA toolkit and NCCL are
# installed.
find_package(CUDAToolkit QUIET)
find_path(ZERO_NCCL_INCLUDE nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(ZERO_NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
mark_as_advanced(ZERO_NCCL_INCLUDE ZERO_NCCL_LIBRARY)
if(TARGET CUDA::cudart AND ZERO_NCCL_INCLUDE AND ZERO_NCCL_LIBRARY AND NOT TARGET zero::cuda)
  add_library(zero::cuda INTERFACE IMPORTED GLOBAL)
  target_include_directories(zero::cuda SYSTEM INTERFACE ${ZERO_NCCL_INCLUDE})
  target_link_libraries(zero::cuda INTERFACE zero::zero CUDA::cudart ${ZERO_NCCL_LIBRARY}
                                             ${CMAKE_DL_LIBS})
endif()
