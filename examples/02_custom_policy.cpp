// A sharding policy of one's own, proved by the compiler and compared with Zero3.
#include <cstdio>
#include <vector>
#include <zero/zero.hpp>

/// Gathers a unit for each use and keeps nothing: the least memory, and no overlap.
struct JustInTime {
  using shards = zero::Parameters;
  static constexpr zero::Slots slots{1, false};  // one whole unit at a time, never more
  static constexpr void before_forward(zero::ScheduleBuilder& s, std::size_t u) { s.gather(u); }
  static constexpr void after_forward(zero::ScheduleBuilder& s, std::size_t u) { s.release(u); }
  static constexpr void before_backward(zero::ScheduleBuilder& s, std::size_t u) { s.gather(u); }
  static constexpr void after_backward(zero::ScheduleBuilder& s, std::size_t u) { s.release(u); }
};
using Frugal = zero::Stage<zero::ShardOptimizer<>, zero::ShardGrads<>, JustInTime>;
static_assert(zero::proven<Frugal>);  // without the release above, this line is the one error

struct Config {
  std::size_t width;
};

template <class T>
struct Layer {
  zero::Tensor<T> weight;
  static constexpr auto tensors(const Config& c) {
    return zero::tensors(zero::tensor("weight", &Layer::weight, {c.width}));
  }
};

/// Trains a chain of products a few steps; returns the bytes that rank 0 held and what came out.
template <class StageType>
std::size_t train(std::vector<float>& weights) {
  std::size_t bytes = 0;
  zero::run_threads(2, [&](zero::ThreadCommunicator& comm) {
    auto model = zero::model(zero::units<Layer>("layer", 6, Config{weights.size()}));
    auto module = zero::shard<StageType>(model, comm, zero::AdamW{.learning_rate = 0.1f});
    module.initialize([](const zero::TensorInfo&, std::size_t i) { return 1.0f / float(i + 1); });
    for (int k = 0; k < 5; ++k) {
      auto step = module.begin_step();
      for (auto unit : step.forward()) (void)unit;  // a real layer computes here
      for (auto unit : step.backward()) {
        auto gradient = unit.template gradients<Layer>();
        auto weight = unit.template weights<Layer>();
        for (std::size_t i = 0; i < weights.size(); ++i) {
          gradient.weight[i] += weight.weight[i] * float(comm.rank() + 1);
        }
      }
      if (step.finish().skipped()) std::printf("skipped\n");
    }
    std::vector<float> mine(weights.size());
    module.read_weights("layer.3.weight", mine);
    if (comm.rank() == 0) weights = mine, bytes = module.bytes_held().total();
  });
  return bytes;
}

int main() {
  std::vector<float> frugal(1000), zero3(1000);
  const std::size_t frugal_bytes = train<Frugal>(frugal), zero3_bytes = train<zero::Zero3>(zero3);
  std::printf("bytes on each rank: %zu with JustInTime, %zu with Zero3\n", frugal_bytes,
              zero3_bytes);
  std::printf("weights are %s\n", frugal == zero3 ? "equal bit for bit" : "DIFFERENT");
  return frugal == zero3 && frugal_bytes < zero3_bytes ? 0 : 1;
}
