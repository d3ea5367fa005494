// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// zero::save, zero::load, AsyncSaver, and what exchanges weights with others. Needs libxxhash: link
// with -lxxhash, or with zero::checkpoint in CMake.
#pragma once
#include <zero/checkpoint/async_saver.hpp>
#include <zero/checkpoint/files.hpp>
#include <zero/checkpoint/held_state.hpp>
#include <zero/checkpoint/import_weights.hpp>
#include <zero/checkpoint/load.hpp>
#include <zero/checkpoint/load_weights.hpp>
#include <zero/checkpoint/merge.hpp>
#include <zero/checkpoint/safetensors.hpp>
#include <zero/checkpoint/save.hpp>
#include <zero/checkpoint/stored_checkpoint.hpp>
#include <zero/checkpoint/weight_files.hpp>
