// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// ZERO_CHECK_LEVEL: how much is checked while a program runs. Includes nothing.
#pragma once

/// 0  off: what a scope is asked for is not checked against the step being abandoned.
/// 1  local (the default): each rank checks its own calls.
/// 2  communication: views of a unit's tensors know their scope, and a use of one after its end, or
///    beyond its elements, is a ContractError that names the unit; released weights and padding are
///    NaN. What ranks call is compared across them: communicators over threads do so at all levels.
///
/// It is read where zero::Tensor is named, and travels with the types of unit kinds that have such
/// members: translation units of different levels may be linked, if they do not share unit kinds.
#ifndef ZERO_CHECK_LEVEL
#define ZERO_CHECK_LEVEL 1
#endif
