// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// zero.hpp, and ranks that are processes over MPI. Needs mpi.h; link MPI (zero::mpi in CMake).
#pragma once
#include <zero/comm/launch/place.hpp>
#include <zero/comm/launch/share.hpp>
#include <zero/comm/mpi/mpi_communicator.hpp>
#include <zero/comm/mpi/options.hpp>
#include <zero/comm/mpi/run_mpi.hpp>
#include <zero/zero.hpp>
