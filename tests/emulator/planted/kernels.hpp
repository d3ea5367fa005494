// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The planted mistakes that need kernels.
#pragma once

void kernel_stores_past_the_end(bool mended);
void kernel_uses_freed_memory(bool mended);
void kernels_race(bool mended);
