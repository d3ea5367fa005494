// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// All of zero that needs a host compiler only: sharded tensors and modules on threads and host
// memory.
#pragma once
#include <zero/base/element.hpp>
#include <zero/base/error.hpp>
#include <zero/base/version.hpp>
#include <zero/comm/mesh.hpp>
#include <zero/comm/run_threads.hpp>
#include <zero/comm/self_communicator.hpp>
#include <zero/comm/thread_communicator.hpp>
#include <zero/device/host_stream.hpp>
#include <zero/layout/fields.hpp>
#include <zero/layout/tensor.hpp>
#include <zero/module/sharded_module.hpp>
#include <zero/module/sharded_optimizer.hpp>
#include <zero/module/sharded_tensor.hpp>
#include <zero/optim/adafactor.hpp>
#include <zero/optim/adamw.hpp>
#include <zero/optim/adamw_8bit.hpp>
#include <zero/optim/ema.hpp>
#include <zero/optim/groups.hpp>
#include <zero/optim/lion.hpp>
#include <zero/optim/loss_scale.hpp>
#include <zero/optim/muon.hpp>
#include <zero/optim/sgd.hpp>
#include <zero/policy/precision.hpp>
#include <zero/policy/stages.hpp>
