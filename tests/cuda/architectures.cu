// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Every kernel, compiled to machine code for several architectures without a warning.
#include <zero/optim/adamw.hpp>
#include <zero/optim/cast.cuh>
#include <zero/optim/ema.hpp>
#include <zero/optim/lion.hpp>
#include <zero/optim/norm.cuh>
#include <zero/optim/pack.cuh>
#include <zero/optim/quantise.cuh>
#include <zero/optim/update.cuh>

template void zero::update_group<zero::AdamW>(cudaStream_t, const GroupUpdate<AdamW>&);
template void zero::update_group<zero::Ema<zero::Lion>>(cudaStream_t,
                                                        const GroupUpdate<Ema<Lion>>&);

void all_others(cudaStream_t stream, const zero::Array& a, const zero::QuantisedArray& codes,
                const zero::TensorRange* ranges, const zero::PackedTensor* tensors, double* out) {
  zero::cast_scaled(stream, a, a, 1, true);
  zero::quantise(stream, a, codes);
  zero::dequantise(stream, codes, a);
  zero::pack(stream, tensors, 1, a);
  zero::unpack(stream, a, tensors, 1);
  zero::norm_part(stream, a, ranges, 1, 0, 2, out + 1, out);
}
