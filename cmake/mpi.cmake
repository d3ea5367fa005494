# SPDX-License-Identifier: Apache-2.0
# zero::mpi, for programs that include <zero/mpi.hpp>, where Open MPI or MPICH is installed. Without
# MPI's own C++ classes, which are obsolete.
if(NOT TARGET zero::mpi)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    add_library(zero::mpi INTERFACE IMPORTED GLOBAL)
    target_compile_definitions(zero::mpi INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
    target_link_libraries(zero::mpi INTERFACE zero::zero MPI::MPI_CXX)
  else()
    message(STATUS "Not built, as MPI is not here: zero::mpi")
  endif()
endif()
