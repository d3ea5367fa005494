// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// ZERO_HOST_DEVICE: marks what kernels call as well as the host. Includes nothing.
#pragma once

#ifdef __CUDACC__
#define ZERO_HOST_DEVICE __host__ __device__
#else
#define ZERO_HOST_DEVICE
#endif
