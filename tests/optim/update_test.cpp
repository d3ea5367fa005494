// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <tuple>
#include <vector>
#include <zero/base/element.hpp>
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
