// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// What a module is made of, on one rank. May include anything below module/.
#pragma once
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <utility>
#include <zero/base/list.hpp>
#include <zero/comm/mesh.hpp>
#include <zero/module/buffers.hpp>
#include <zero/module/control.hpp>
#include <zero/module/detail/checks.hpp>
#include <zero/module/detail/decision.hpp>
#include <zero/module/detail/host_work.hpp>
#include <zero/module/detail/kept_state.hpp>
#include <zero/module/detail/on_device.hpp>
#include <zero/module/detail/optimizers.hpp>
#include <zero/module/detail/rank_memory.hpp>
#include <zero/module/detail/runner.hpp>
#include <zero/module/detail/schedules.hpp>
#include <zero/module/detail/state_at_rest.hpp>
#include <zero/module/options.hpp>
#include <zero/module/parameter_table.hpp>

namespace zero::detail {

/// All that a module is made of, and what of it does not change from step to step.
template <class Optimizer, class Comm>
class EngineParts {
 public:
  using Buffers = zero::Buffers<Optimizer::states>;
  using Runner = detail::Runner<Optimizer, Comm>;
  using Device = OnDevice<typename Comm::Stream>;
  using Streams = typename Device::Streams;
  using Memory = RankMemory<Buffers, typename Device::Memory, typename Device::Staged>;
  using Store = typename Device::Store;
  using AtRest = StateAtRest<Buffers, Streams, Store>;
  using Kept = KeptState<Optimizer, Comm, Buffers, Streams>;
  static constexpr std::size_t states = Optimizer::states;

  EngineParts(const StageValue& stage, ParameterTable parameters, const Mesh<Comm>& mesh,
              Groups<Optimizer> optimizers, const ModuleOptions& options)
      : parameters_(std::move(parameters)),
        mesh_(mesh),
        optimizers_(std::move(optimizers), parameters_),
        options_(options),
        schedules_(stage, parameters_, options),
        control_shape_(detail::control_shape<Optimizer>(parameters_, mesh_, options_)),
        memory_(parameters_, schedules_, mesh_.shard.rank(), mesh_.replicate.rank(), control_shape_,
                options_),
        control_(memory_.buffers().control(), control_shape_, options_.loss_scale,
                 memory_.staged()),
        training_events_(schedules_.most_steps()),
        evaluation_events_(schedules_.most_steps()),
        streams_(options_, stage.traits),
        at_rest_(memory_.buffers(), schedules_.stage().traits, streams_, store_),
        runner_(parameters_, mesh_, memory_.buffers(), control_, streams_, options_,
                stage.traits.offloads() ? &store_ : nullptr) {
    options_.programs = {};  // Schedules has them
    if (!Device::is_host) options_.user_code = UserCode::on_stream;
    // Bytes of ones are NaN in every type.
    streams_.fill_now(memory_.block(), options_.poison ? 0xFF : 0, memory_.arena().used());
    const std::span<std::byte> control = memory_.buffers().control();
    streams_.fill_now(control.data(), 0, control.size());
    streams_.prepare(training_events_);
    streams_.prepare(evaluation_events_);
    list_ranges(control_, parameters_, mesh_.first_of_axes(), streams_);
    check_mesh(mesh_, stage.traits);
    compare_across_ranks(mesh_.world, schedules_.hash(options_.rounding_seed));
    if (stage.traits.offloads()) open_store(stage.traits.state_home);
  }
  EngineParts(const EngineParts&) = delete;
  EngineParts& operator=(const EngineParts&) = delete;
  ~EngineParts() { streams_.settle(); }

  const ParameterTable& parameters() const { return parameters_; }
  const Mesh<Comm>& mesh() const { return mesh_; }
  const Schedules& schedules() const { return schedules_; }
  const Groups<Optimizer>& optimizers() const { return optimizers_.groups(); }
  const ModuleOptions& options() const { return options_; }
  const Memory& memory() const { return memory_; }
  Buffers& buffers() { return memory_.buffers(); }
  const ControlShape& control_shape() const { return control_shape_; }
  Streams& streams() { return streams_; }
  const Store& store() const { return store_; }
  /// Optimizer state, wherever it is kept, while nothing runs.
  AtRest& at_rest() { return at_rest_; }
  const Runner& runner() const { return runner_; }

 protected:
  /// All ranks get the error of one.
  void open_store(StateHome home) {
    std::string rank = std::to_string(mesh_.world.rank());
    for (const Comm& axis : mesh_.axes) rank += '.' + std::to_string(axis.rank());
    std::exception_ptr error;
    try {
      store_.open(home, memory_.buffers().regions().total(), options_.offload, rank);
    } catch (...) { error = std::current_exception(); }
    List<std::uint64_t> failed(mesh_.world.size());
    const std::uint64_t mine = error ? 1 : 0;
    mesh_.world.all_gather(&mine, failed.data(), 1, Label{"offload", "all units", 0});
    if (error) std::rethrow_exception(error);
    for (std::size_t r = 0; r < failed.size(); ++r) {
      if (failed[r] == 0) continue;
      throw DeviceError("zero::shard: rank " + std::to_string(r) +
                        " could not make room for its offloaded optimizer state; see its error");
    }
  }
  const std::string& name(std::size_t unit) const { return parameters_.units()[unit].name; }
  /// Tells Control how the step ends. Returns what a function of the user's threw: all ranks are to
  /// skip the step then.
  std::exception_ptr tell_finish(const FinishOptions& options) {
    const double ranks = static_cast<double>(mesh_.world.size());
    std::uint64_t settings = 0;
    std::exception_ptr error;
    try {
      settings = optimizers_.settings(control_.step());
      optimizers_.set_coefficients(control_, parameters_,
                                   RandomBits{}.with(options_.rounding_seed));
    } catch (...) {
      error = std::current_exception();
      control_.fail();
    }
    control_.finish(options.divisor == 0 ? ranks : options.divisor, options.max_norm, settings);
    return error;
  }

  ParameterTable parameters_;
  Mesh<Comm> mesh_;
  Optimizers<Optimizer> optimizers_;
  ModuleOptions options_;
  Schedules schedules_;
  ControlShape control_shape_;
  Memory memory_;
  Control control_;
  List<typename Device::Event> training_events_, evaluation_events_;
  Store store_;
  Streams streams_;  // after what its queued work refers to: its destruction ends that work
  AtRest at_rest_;
  Runner runner_;
};

}  // namespace zero::detail
