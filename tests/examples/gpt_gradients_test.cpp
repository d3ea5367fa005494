// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// The hand-written passes of the GPT example against central differences and against each other.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "gpt/math.hpp"
#include "gpt/model.hpp"
#include "gpt/text.hpp"
#include "gpt/widen.hpp"

BOOST_AUTO_TEST_SUITE(gpt_gradients_test)

using gpt::Size;

constexpr gpt::Config small{.layers = 2, .width = 16, .heads = 2, .context = 8};
constexpr Size sequences = 2;
gpt::HostMath math;

/// All tensors of the model in one array, with the views of its units: what a module does on one
/// rank.
template <class Real>
struct Network {
  struct Named {
    std::string name;
    std::size_t begin, size;
  };
  std::vector<Named> tensors;
  std::vector<Real> values;
  gpt::Embedding<Real> embedding;
  std::vector<gpt::Block<Real>> blocks;
  gpt::Head<Real> head;

  explicit Network(const gpt::Config& c) {
    add<gpt::Embedding>("embed.", c);
    for (Size i = 0; i < c.layers; ++i) add<gpt::Block>("block." + std::to_string(i) + ".", c);
    add<gpt::Head>("head.", c);
    values.resize(tensors.back().begin + tensors.back().size);
    std::size_t next = 0;
    const auto place = [&](std::size_t) { return values.data() + tensors[next++].begin; };
    embedding = zero::view_of<gpt::Embedding, Real>(c, place);
    for (Size i = 0; i < c.layers; ++i) blocks.push_back(zero::view_of<gpt::Block, Real>(c, place));
    head = zero::view_of<gpt::Head, Real>(c, place);
  }

  template <class Value>
  void fill(Value value) {
    for (const Named& t : tensors)
      for (std::size_t i = 0; i < t.size; ++i) values[t.begin + i] = Real(value(t.name, i));
  }

 private:
  template <template <class> class Kind>
  void add(const std::string& unit, const gpt::Config& c) {
    for (const zero::TensorSpec& spec : zero::specs_of<Kind>(c)) {
      const std::size_t begin = tensors.empty() ? 0 : tensors.back().begin + tensors.back().size;
      tensors.push_back({unit + spec.name, begin, static_cast<std::size_t>(spec.shape.elements())});
    }
  }
};

template <class Real>
void forward(const gpt::Config& c, const Network<Real>& w, const std::uint8_t* bytes,
             gpt::Activations<Real>& a) {
  embedding_forward(math, c, w.embedding, bytes, a);
  for (std::size_t i = 0; i < w.blocks.size(); ++i) block_forward(math, c, w.blocks[i], i, a);
  head_forward(math, c, w.head, a);
}

template <class Real>
double run(const gpt::Config& c, const Network<Real>& w, const gpt::Batch& batch, Real weight,
           gpt::Activations<Real>& a) {
  forward(c, w, batch.inputs.data(), a);
  double loss = 0;
  gpt::add_loss(math, c, batch.targets.data(), weight, a, &loss);
  return loss;
}

template <class Real>
void backward(const gpt::Config& c, const Network<Real>& w, const Network<Real>& g,
              const gpt::Batch& batch, gpt::Activations<Real>& a) {
  head_backward(math, c, w.head, g.head, a);
  for (std::size_t i = w.blocks.size(); i-- > 0;)
    block_backward(math, c, w.blocks[i], g.blocks[i], i, a);
  embedding_backward(math, c, g.embedding, batch.inputs.data(), a);
}

/// Weights that are large enough for every path, above all the attention's, to matter.
float spread_out(std::string_view name, std::size_t element) {
  const float start = gpt::initial_value(name, element, 7, small);
  return name.ends_with("norm.weight")     ? start
         : name.ends_with("logits.weight") ? 12 * start
                                           : 2 * start;
}

gpt::Batch some_bytes(const gpt::Config& c, Size count = sequences) {
  std::string text;
  for (std::uint64_t i = 0; i < 500; ++i) text += static_cast<char>(gpt::mix(3, i) & 0xff);
  gpt::Batch batch(count, c.context);
  batch.fill(text, {.seed = 5, .step = 0, .micro_step = 0, .rank = 0});
  return batch;
}

struct Threads {
  Threads() { openblas_set_num_threads(1); }
};

BOOST_GLOBAL_FIXTURE(Threads);

BOOST_AUTO_TEST_CASE(gradients_of_every_element_equal_central_differences) {
  Network<double> w(small), g(small);
  w.fill(spread_out);
  const gpt::Batch batch = some_bytes(small);
  gpt::Activations<double> a(small, sequences);
  const double weight = 0.5;  // of this micro-step in the step
  run(small, w, batch, weight, a);
  backward(small, w, g, batch, a);
  for (const auto& tensor : w.tensors) {
    double largest = 0, worst = 0;
    for (std::size_t i = tensor.begin; i < tensor.begin + tensor.size; ++i) {
      const double value = w.values[i], distance = 1e-5;
      w.values[i] = value + distance;
      const double above = run(small, w, batch, weight, a);
      w.values[i] = value - distance;
      const double below = run(small, w, batch, weight, a);
      w.values[i] = value;
      const double expected = weight * (above - below) / (2 * distance);
      largest = std::max(largest, std::abs(expected));
      worst = std::max(worst, std::abs(expected - g.values[i]));
    }
    BOOST_TEST_CONTEXT(tensor.name << ": largest gradient " << largest << ", error " << worst) {
      BOOST_TEST(largest > 1e-5);
      BOOST_TEST(worst < 1e-6 * largest + 1e-10);
    }
  }
}

BOOST_AUTO_TEST_CASE(gradients_in_float_follow_those_in_double) {
  Network<double> w(small), g(small);
  Network<float> w32(small), g32(small);
  w.fill(spread_out);
  w32.fill(spread_out);
  const gpt::Batch batch = some_bytes(small);
  gpt::Activations<double> a(small, sequences);
  gpt::Activations<float> a32(small, sequences);
  BOOST_TEST(std::abs(run(small, w, batch, 1.0, a) - run(small, w32, batch, 1.0f, a32)) < 1e-5);
  backward(small, w, g, batch, a);
  backward(small, w32, g32, batch, a32);
  for (const auto& tensor : w.tensors) {
    double largest = 0, worst = 0;
    for (std::size_t i = tensor.begin; i < tensor.begin + tensor.size; ++i) {
      largest = std::max(largest, std::abs(g.values[i]));
      worst = std::max(worst, std::abs(g.values[i] - static_cast<double>(g32.values[i])));
    }
    BOOST_TEST_CONTEXT(tensor.name) BOOST_TEST(worst < 1e-5 * largest);
  }
}

BOOST_AUTO_TEST_CASE(a_second_backward_adds_to_the_gradients_of_the_first) {
  Network<double> w(small), once(small), twice(small);
  w.fill(spread_out);
  const gpt::Batch batch = some_bytes(small);
  gpt::Activations<double> a(small, sequences);
  run(small, w, batch, 1.0, a);
  backward(small, w, once, batch, a);
  for (int i = 0; i < 2; ++i) {
    run(small, w, batch, 1.0, a);
    backward(small, w, twice, batch, a);
  }
  double worst = 0;
  for (std::size_t i = 0; i < once.values.size(); ++i)
    worst = std::max(worst, std::abs(2 * once.values[i] - twice.values[i]));
  BOOST_TEST(worst < 1e-14);
}

BOOST_AUTO_TEST_CASE(a_later_byte_never_changes_an_earlier_logit) {
  Network<float> w(small);
  w.fill(spread_out);
  gpt::Batch batch = some_bytes(small, 1);
  gpt::Activations<float> a(small, 1);
  forward(small, w, batch.inputs.data(), a);
  const std::vector<float> before(a.logits, a.logits + small.context * gpt::byte_values);
  for (Size changed = 0; changed < small.context; ++changed) {
    std::uint8_t& byte = batch.inputs[static_cast<std::size_t>(changed)];
    byte = static_cast<std::uint8_t>(byte ^ 0x55);
    forward(small, w, batch.inputs.data(), a);
    byte = static_cast<std::uint8_t>(byte ^ 0x55);
    const auto same = [&](Size t) {
      return std::memcmp(before.data() + t * gpt::byte_values, a.logits + t * gpt::byte_values,
                         gpt::byte_values * sizeof(float)) == 0;
    };
    for (Size t = 0; t < small.context; ++t) BOOST_TEST(same(t) == (t < changed));
  }
}

BOOST_AUTO_TEST_CASE(an_untrained_model_knows_nothing_so_its_loss_is_about_ln_256) {
  const gpt::Config c{};
  Network<float> w(c);
  w.fill([&](const std::string& name, std::size_t i) { return gpt::initial_value(name, i, 1, c); });
  gpt::Activations<float> a(c, 4);
  BOOST_TEST(std::abs(run(c, w, some_bytes(c, 4), 1.0f, a) - std::log(256.0)) < 0.1);
}

BOOST_AUTO_TEST_CASE(threads_that_run_at_once_compute_the_same_bits) {
  const gpt::Config c{.layers = 2};
  Network<float> w(c);
  w.fill([&](const std::string& name, std::size_t i) { return gpt::initial_value(name, i, 1, c); });
  const gpt::Batch batch = some_bytes(c, 4);
  std::vector<Network<float>> gradients(4, Network<float>(c));
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < gradients.size(); ++r) {
    gradients[r] = Network<float>(c);
    threads.emplace_back([&, r] {
      Network<float>& g = gradients[r];
      gpt::Activations<float> a(c, 4);
      for (int i = 0; i < 5; ++i) {
        run(c, w, batch, 1.0f, a);
        backward(c, w, g, batch, a);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (const Network<float>& g : gradients)
    BOOST_TEST(std::memcmp(g.values.data(), gradients[0].values.data(),
                           g.values.size() * sizeof(float)) == 0);
}

BOOST_AUTO_TEST_CASE(the_exponential_is_within_two_units_in_the_last_place) {
  double worst = 0;
  for (int i = -86000; i < 88000; ++i) {
    const float x = static_cast<float>(i) * 1e-3f;
    const double exact = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::abs(static_cast<double>(gpt::exponential(x)) / exact - 1));
  }
  BOOST_TEST(worst < 2 * 0x1p-23);
  BOOST_TEST(gpt::exponential(0.0f) == 1.0f);
  BOOST_TEST(gpt::exponential(-1000.0f) == gpt::exponential(-87.0f));
  BOOST_TEST(std::isnan(gpt::exponential(std::nanf(""))));
}

BOOST_AUTO_TEST_CASE(narrow_weights_are_widened_tensor_by_tensor) {
  Network<zero::bf16> narrow(small);
  for (std::size_t i = 0; i < narrow.values.size(); ++i)
    narrow.values[i] = zero::bf16(static_cast<float>(i % 251));
  std::vector<float> scratch(static_cast<std::size_t>(gpt::largest_unit(small)));
  const gpt::Block<float> wide =
      gpt::widen<gpt::Block, zero::bf16>(small, narrow.blocks[1], scratch.data());
  BOOST_TEST(wide.down.size() == static_cast<std::size_t>(small.width * small.inner()));
  for (std::size_t i = 0; i < wide.down.size(); ++i)
    if (wide.down[i] != static_cast<float>(narrow.blocks[1].down[i])) BOOST_ERROR("differs");
  BOOST_TEST(wide.attention_norm[3] == static_cast<float>(narrow.blocks[1].attention_norm[3]));
}

BOOST_AUTO_TEST_SUITE_END()
