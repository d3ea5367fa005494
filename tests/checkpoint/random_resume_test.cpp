// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Trainings drawn at random that are saved, and go on in another stage on another mesh, leave what
// one that is never interrupted leaves. ZERO_RANDOM_RESUMES="FIRST COUNT" tries other seeds.
#include <boost/test/unit_test.hpp>
#include <iostream>
#include <zero/checkpoint.hpp>

#include "../module/random_draw.hpp"
#include "../module/random_run.hpp"
#include "memory_files.hpp"

BOOST_AUTO_TEST_SUITE(random_resume_test)

using namespace random_training;

BOOST_AUTO_TEST_CASE(trainings_that_go_on_elsewhere_leave_what_one_thread_leaves) {
  const Seeds seeds("ZERO_RANDOM_RESUMES", 60);
  for (std::size_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    Case c = draw(seed, 2 + seed % 2);
    const Reference reference(c);
    files::MemoryFiles disk;
    const std::string wrong = train_case(
        c, reference, [&](auto& module) { zero::save(module, "runs", {.files = &disk}); },
        [&](auto& module) { (void)zero::load(module, "runs", {.files = &disk}); });
    BOOST_CHECK_MESSAGE(wrong.empty(), text(c) << "\n" << wrong);
  }
  std::cout << "zero-counted: " << seeds.count << " random trainings went on elsewhere\n";
}

BOOST_AUTO_TEST_SUITE_END()
