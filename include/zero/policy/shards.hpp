// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The names of what a policy can shard. Includes nothing.
#pragma once

namespace zero {

// Each policy has a member type `shards` that is one of these.
struct Parameters {};
struct Gradients {};
struct OptimizerState {};
struct Nothing {};

}  // namespace zero
