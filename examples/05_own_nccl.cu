// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Sharding in a program that has a communicator of NCCL, streams and device memory of its own, and
// keeps them: all are lent to the module and work as before when it is gone. So is its update
// kernel.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>
#include <zero/cuda.cuh>

struct Config {
  std::size_t size;
};

template <class T>
struct Layer {
  zero::Tensor<T> weight;
  static auto tensors(const Config& c) {
    return zero::tensors(zero::tensor("weight", &Layer::weight, {c.size}));
  }
};

/// Made-up gradients that pull every weight to a place of the rank's.
__global__ void backward(const zero::bf16* weight, float* gradient, std::size_t count,
                         float place) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) gradient[i] += float(weight[i]) - place;
}

/// An optimizer with a kernel of its own: it updates fp32 masters, piece by piece.
struct Momentum {
  static constexpr std::size_t states = 1;
  struct Coefficients {
    float rate, kept;
  };
  static Coefficients coefficients(std::int64_t, std::int64_t, bool) { return {0.05F, 0.5F}; }
  static void enqueue(cudaStream_t stream, const zero::OwnedPiece<Coefficients, 1>& piece);
};
__global__ void move(zero::OwnedPiece<Momentum::Coefficients, 1> piece) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= piece.count || !piece.applies()) return;
  float& velocity = piece.states[0][i];
  velocity = piece.coefficients->kept * velocity + piece.gradient_at(i);
  piece.weights[i] -= piece.coefficients->rate * velocity;
}
void Momentum::enqueue(cudaStream_t stream, const zero::OwnedPiece<Coefficients, 1>& piece) {
  move<<<unsigned(piece.count + 255) / 256, 256, 0, stream>>>(piece);
}

void prove(bool yes, const char* what) {
  if (yes) return;
  std::fprintf(stderr, "This does not hold: %s\n", what);
  std::exit(1);
}
/// A call of CUDA or NCCL, for which 0 is success.
#define MUST(call) prove((call) == 0, #call)

/// Trains with a communicator and streams that are the caller's; returns the last weight.
float train(ncclComm_t comm, zero::ModuleOptions options) {
  auto adopted = zero::NcclCommunicator::adopt(comm);
  const auto mesh = zero::mesh(adopted);
  const auto model = zero::model(zero::units<Layer>("layer", 3, Config{1000}));
  const Momentum momentum;

  // The caller's allocator owns the memory: ask for the size, bind the pointer.
  const std::size_t bytes =
      zero::bytes_needed<zero::Zero3, zero::bf16>(model, mesh, momentum, options);
  std::byte* memory = nullptr;
  MUST(cudaMalloc(&memory, bytes));
  options.memory = {memory, bytes};
  std::vector<float> whole(1000, 0.0f);
  {
    auto sharded = zero::shard<zero::Zero3, zero::bf16>(model, mesh, momentum, options);
    sharded.initialize([](const zero::TensorInfo&, std::size_t) { return 1.0f; });
    const cudaStream_t compute = options.cuda_streams[std::size_t(zero::StreamId::compute)];
    for (int k = 0; k < 60; ++k) {
      auto step = sharded.begin_step();
      for (auto unit : step.forward()) (void)unit;
      for (auto unit : step.backward()) {
        const auto w = unit.weights<Layer>().weight;
        const auto g = unit.gradients<Layer>().weight;
        const auto place = float(mesh.world.rank());
        backward<<<unsigned(w.size() + 255) / 256, 256, 0, compute>>>(w.data(), g.data(), w.size(),
                                                                      place);
        MUST(cudaGetLastError());
        const auto offset = reinterpret_cast<const std::byte*>(w.data()) - memory;
        prove(offset >= 0 && std::size_t(offset) < bytes, "the weights lie in our memory");
        prove(unit.stream().native() == compute, "units compute on our stream");
      }
      prove(step.finish().applied, "the step was applied");
    }
    sharded.read_weights("layer.2.weight", whole);
  }
  MUST(cudaFree(memory));
  if (mesh.world.rank() == 0) std::printf("On each rank a module used our %zu bytes, ", bytes);
  return whole.back();
}

void run_rank(int rank, int ranks, ncclUniqueId id) {
  MUST(cudaSetDevice(rank));
  ncclComm_t comm = nullptr;
  MUST(ncclCommInitRank(&comm, ranks, id, rank));
  zero::ModuleOptions lent{.user_code = zero::UserCode::on_stream};
  for (cudaStream_t& stream : lent.cuda_streams)
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));

  const float weight = train(comm, lent), mean = float(ranks - 1) / 2;
  prove(std::abs(weight - mean) < 0.02f, "weights are where the ranks pull them on average");

  float *sum = nullptr, result = 0;
  MUST(cudaMalloc(&sum, sizeof(float)));
  MUST(cudaMemcpy(sum, &mean, sizeof(float), cudaMemcpyHostToDevice));
  MUST(ncclAllReduce(sum, sum, 1, ncclFloat32, ncclSum, comm, lent.cuda_streams[0]));
  MUST(cudaStreamSynchronize(lent.cuda_streams[0]));
  MUST(cudaMemcpy(&result, sum, sizeof(float), cudaMemcpyDeviceToHost));
  prove(result == mean * float(ranks), "our communicator works when the module is gone");
  MUST(cudaFree(sum));
  for (cudaStream_t stream : lent.cuda_streams) MUST(cudaStreamDestroy(stream));
  MUST(ncclCommDestroy(comm));
}

int main() {
  int ranks = 0;  // one for each device
  MUST(cudaGetDeviceCount(&ranks));
  ncclUniqueId id;
  MUST(ncclGetUniqueId(&id));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(run_rank, rank, ranks, id);
  threads.clear();  // waits
  std::printf("and our streams and communicator; the two work as before on all %d.\n", ranks);
}
