// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <tuple>
#include <utility>
#include <vector>
#include <zero/base/array.hpp>
#include <zero/base/element.hpp>
#include <zero/optim/adamw.hpp>
#include <zero/optim/cast.hpp>
#include <zero/optim/sgd.hpp>
#include <zero/optim/update.hpp>

BOOST_AUTO_TEST_SUITE(update_test)

const auto c = zero::Sgd{.learning_rate = 1}.coefficients(1, 0, true);

using Types = std::tuple<float, zero::bf16, zero::fp16>;

BOOST_AUTO_TEST_CASE_TEMPLATE(weights_of_every_type_follow_the_master, T, Types) {
  std::vector<float> gradient(70, 0.3F), master(70, 1), m(70, 0);
  std::vector<T> compute(70, T(0.0F));
  float* const states[] = {m.data()};
  zero::update<zero::Sgd>(c, 1, 1, gradient.data(), master.data(), compute.data(), states, 70);
  for (std::size_t i = 0; i < 70; ++i) {
    BOOST_TEST(master[i] == 1 - 0.3F);
    BOOST_TEST(zero::to_float(compute[i]) == zero::to_float(T(master[i])));
  }
}

BOOST_AUTO_TEST_CASE(weights_that_are_their_own_master_are_updated_once) {
  std::vector<float> gradient(70, 1), master(70, 5), m(70, 0);
  float* const states[] = {m.data()};
  zero::update<zero::Sgd>(c, 1, 1, gradient.data(), master.data(), master.data(), states, 70);
  for (const float weight : master) BOOST_TEST(weight == 4);
}

struct Sign {  // an optimizer of one's own, without state
  static constexpr std::size_t states = 0;
  struct Coefficients {
    float rate;
  };
  Coefficients coefficients(std::int64_t, std::int64_t, bool) const { return {0.5F}; }
  static constexpr void element(const Coefficients& k, float gradient, float& master) {
    master -= gradient > 0 ? k.rate : -k.rate;
  }
};
static_assert(zero::Optimizer<Sign> && !zero::Optimizer<float>);

BOOST_AUTO_TEST_CASE(an_optimizer_may_have_no_state) {
  std::vector<float> gradient(70, -3), master(70, 1);
  zero::update<Sign, float>({0.5F}, 1, 1, gradient.data(), master.data(), nullptr, nullptr, 70);
  for (const float weight : master) BOOST_TEST(weight == 1.5F);
}

/// The arrays of one update of AdamW in types of one's choice.
struct Typed {
  std::vector<std::byte> memory = std::vector<std::byte>(5 * room);
  std::size_t n;
  zero::DataType gradient, master, moments;

  static constexpr std::size_t room = 4096 * sizeof(float);
  zero::Array array(std::size_t which, zero::DataType type) {
    return {memory.data() + which * room, n, type};
  }
  void fill() {
    for (std::size_t k = 0; k < 4; ++k) {
      std::vector<float> values(n);
      for (std::size_t i = 0; i < n; ++i) {
        values[i] = static_cast<float>((i * 7 + k * 3) % 13) * 0x1.8p-3F + (k == 0 ? -1.0F : 1.0F);
      }
      zero::cast(zero::Array(values.data(), n), array(k, type(k)));
    }
  }
  zero::DataType type(std::size_t k) const { return k == 0 ? gradient : k == 1 ? master : moments; }
  /// Updates elements [begin, begin + count).
  void update(std::size_t begin, std::size_t count, zero::DataType compute, zero::DataType gather) {
    const zero::Array states[] = {array(2, moments).part(begin, count),
                                  array(3, moments).part(begin, count)};
    zero::update<zero::AdamW>(zero::AdamW{.learning_rate = 0.1F}.coefficients(3, 2, true), 2, 1,
                              {.gradient = array(0, gradient).part(begin, count),
                               .master = array(1, master).part(begin, count),
                               .compute = array(4, compute).part(begin, count),
                               .states = states,
                               .gather = gather,
                               .random = zero::RandomBits{}.with(1),
                               .begin = begin});
  }
};
constexpr zero::DataType fp32 = zero::DataType::fp32, bf = zero::DataType::bf16;

BOOST_AUTO_TEST_CASE(arrays_of_every_type_cut_anywhere_give_the_same_bits) {
  for (const auto gradient : {fp32, bf}) {
    for (const auto master : {fp32, bf}) {
      for (const auto moments : {fp32, bf}) {
        Typed whole{.n = 2500, .gradient = gradient, .master = master, .moments = moments};
        whole.fill();
        Typed parts = whole;
        whole.update(0, 2500, bf, bf);
        for (const auto& [begin, end] :
             {std::pair{0, 1}, {1, 3}, {3, 70}, {70, 1100}, {1100, 2500}}) {
          const auto b = static_cast<std::size_t>(begin), e = static_cast<std::size_t>(end);
          parts.update(b, e - b, bf, bf);
        }
        BOOST_TEST((whole.memory == parts.memory));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(narrow_arrays_are_updated_in_fp32_and_rounded_to_a_neighbour) {
  constexpr std::size_t n = 1500;
  Typed wide{.n = n, .gradient = fp32, .master = fp32, .moments = fp32},
      narrow{.n = n, .gradient = bf, .master = bf, .moments = bf};
  wide.fill();  // with numbers that all types hold
  narrow.fill();
  wide.update(0, n, bf, bf);
  narrow.update(0, n, bf, bf);
  for (std::size_t k = 1; k < 4; ++k) {
    std::size_t ups = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const float exact = wide.array(k, fp32).as<float>()[i];
      const zero::bf16 got = narrow.array(k, bf).as<zero::bf16>()[i];
      const bool low = got.bits == zero::round_stochastically(exact, 0).bits;
      const bool high = got.bits == zero::round_stochastically(exact, ~0U).bits;
      BOOST_REQUIRE((low || high));
      ups += !low;
    }
    BOOST_TEST((0 < ups && ups < n));
  }
  for (std::size_t i = 0; i < n; ++i) {  // what computes is the rounded master itself
    BOOST_REQUIRE(narrow.array(4, bf).as<zero::bf16>()[i].bits ==
                  narrow.array(1, bf).as<zero::bf16>()[i].bits);
  }
}

BOOST_AUTO_TEST_CASE(weights_that_travel_in_another_type_are_rounded_to_it) {
  Typed arrays{.n = 1500, .gradient = fp32, .master = fp32, .moments = fp32};
  arrays.fill();
  arrays.update(0, 1500, fp32, bf);
  for (std::size_t i = 0; i < 1500; ++i) {
    const float master = arrays.array(1, fp32).as<float>()[i];
    BOOST_REQUIRE(arrays.array(4, fp32).as<float>()[i] == zero::to_float(zero::bf16(master)));
  }
}

// More elements than 31 bits count; fewer under sanitizers, which keep records of every byte.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
constexpr std::size_t many = (std::size_t{1} << 24) + 5;
#else
constexpr std::size_t many = (std::size_t{1} << 31) + 5;
#endif

/// An array of `many` elements in a little memory, which is mapped again and again: element i is
/// element i % period.
class Repeated {
 public:
  static constexpr std::size_t period = std::size_t{1} << 20;

  Repeated() {
    const int file = memfd_create("repeated", 0);
    BOOST_REQUIRE(ftruncate(file, part) == 0);
    void* const all = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    BOOST_REQUIRE(all != MAP_FAILED);
    data_ = static_cast<float*>(all);
    for (std::size_t at = 0; at < bytes; at += part) {
      void* const here = static_cast<std::byte*>(all) + at;
      BOOST_REQUIRE(mmap(here, part, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) ==
                    here);
    }
    close(file);
  }
  Repeated(const Repeated&) = delete;
  Repeated& operator=(const Repeated&) = delete;
  ~Repeated() { munmap(data_, bytes); }

  float* data() const { return data_; }

 private:
  static constexpr std::size_t part = period * sizeof(float);
  static constexpr std::size_t bytes = (many / period + 1) * part;
  float* data_ = nullptr;
};

BOOST_AUTO_TEST_CASE(an_array_of_more_than_2_to_the_31_elements_is_updated_to_its_end) {
  const Repeated gradient, master;
  constexpr std::size_t period = Repeated::period;
  std::fill_n(gradient.data(), period, 1.0F);
  zero::update<Sign, float>({1}, 1, 1, gradient.data(), master.data(), nullptr, nullptr, many);
  // Each element of the memory was reached once per period, and those of the rest once more.
  constexpr auto rounds = static_cast<float>(many / period);
  constexpr std::size_t rest = many % period;
  static_assert(rest == 5);
  for (std::size_t i = 0; i < period; ++i) {
    BOOST_REQUIRE(master.data()[i] == (i < rest ? -rounds - 1 : -rounds));
  }
}

BOOST_AUTO_TEST_SUITE_END()
