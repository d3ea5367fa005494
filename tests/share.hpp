// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// How many of very many cases of one kind are tried: one in `share`. All, but under the thread
// sanitizer, and schedules under the address sanitizer.
#pragma once

#ifndef ZERO_TEST_SHARE
#define ZERO_TEST_SHARE 1
#endif

inline constexpr unsigned share = ZERO_TEST_SHARE;
