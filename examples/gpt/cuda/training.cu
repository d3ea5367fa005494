// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <memory>
#include <vector>
#include <zero/cuda.cuh>

#include "math.cuh"
#include "ranks.hpp"
#include "training.hpp"

namespace gpt {

/// One rank that computes on a GPU. If the options say so, the second step is captured and later
/// ones are launched as it was; the first runs as it is, so that kernels and connections are there.
class CudaTrainer : public BasicTrainer<CudaMath, float, zero::NcclCommunicator> {
 public:
  CudaTrainer(const zero::StageValue& stage, const Options& options, const std::string& text,
              zero::NcclCommunicator& comm, CudaMath& math)
      : BasicTrainer(stage, options, text, comm, module_options(options, math), math) {}

  double step(Size number) {
    if (!options().captured || number == 0) return BasicTrainer::step(number);
    load_batches(number);
    if (captured_ == nullptr) {
      captured_ = std::make_unique<zero::CapturedStep<Module>>(
          this->module(), [this](auto& step) { passes(step); }, step_options());
    }
    return mean_loss(number, captured_->run(finish_options));
  }

 private:
  static zero::ModuleOptions module_options(const Options& options, const CudaMath& math) {
    zero::ModuleOptions how = gpt::module_options(options);
    how.user_code = zero::UserCode::on_stream;
    how.cuda_streams[static_cast<std::size_t>(zero::StreamId::compute)] = math.stream();
    return how;
  }

  std::unique_ptr<zero::CapturedStep<Module>> captured_;
};

static Training train_rank(const char* name, const zero::StageValue& stage, const Options& options,
                           const std::string& text, zero::NcclCommunicator& comm, std::FILE* out) {
  CudaMath math;
  CudaTrainer trainer(stage, options, text, comm, math);
  return train_all_steps(trainer, name, options.sample, comm.rank(), out);
}

Training train_on_gpus(const char* name, const zero::StageValue& stage, const Options& options,
                       const std::string& text, std::FILE* out) {
  std::vector<Training> of_rank(static_cast<std::size_t>(options.ranks));
  run_on_gpus(of_rank.size(), [&](zero::NcclCommunicator& comm) {
    of_rank[comm.rank()] = train_rank(name, stage, options, text, comm, out);
  });
  return of_all_ranks(of_rank);
}

Training train_as_process(const zero::LaunchPlace& place, const char* name,
                          const zero::StageValue& stage, const Options& options,
                          const std::string& text, std::FILE* out) {
  Training result;
  run_as_process(place, options.id_file, [&](zero::NcclCommunicator& comm) {
    result = train_rank(name, stage, options, text, comm, out);
  });
  return result;
}

}  // namespace gpt
