// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// All of zero for programs that nvcc compiles: modules over CUDA devices and NCCL, and kernels.
// Link with zero::cuda in CMake.
#pragma once
#include <zero/cuda.hpp>
#include <zero/module/captured_step.hpp>
#include <zero/module/detail/cuda_work.cuh>
#include <zero/optim/cast.cuh>
#include <zero/optim/norm.cuh>
#include <zero/optim/pack.cuh>
#include <zero/optim/quantise.cuh>
#include <zero/optim/update.cuh>
#include <zero/zero.hpp>
