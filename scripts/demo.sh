#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds and runs the demo. Installs the Debian packages that are missing.
# usage: scripts/demo.sh [ARGUMENT...]      arguments are those of the demo; --help lists them
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
need_packages g++ cmake ninja-build libopenblas-dev
build demo || exit 1
exec build/demo/examples/gpt_demo "$@"
