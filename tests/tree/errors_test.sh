#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# docs/errors.md lists each message of the headers, and no other: the words in `` of the first column
# of its tables, between which '…' stands for what a program puts in, lie in a message in this order.
# usage: errors_test.sh SOURCE_DIR
source "$(dirname "$0")/cases.sh"
here=$(cd "$(dirname "$0")" && pwd)
cd "$1" || exit 2
declare_cases 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Texts that are no errors: what the planner and the pictures print, and names of variables.
perl "$here/messages.pl" $(find include -name '*.hpp' -o -name '*.cuh' | sort) |
  grep -vE '^include/zero/(plan/(advice|timeline_svg|detail/svg)|schedule/print)\.hpp' |
  grep -vE 'bfnrt|OMPI_COMM_WORLD_RANK…' >"$work/messages"
awk -F'|' '/^\|/ { print $2 }' docs/errors.md | grep -o '`[^`]*`' | tr -d '`' |
  grep -v '^zero::[A-Za-z]*Error$' >"$work/entries"

# Prints the messages that no entry describes, then the entries that no message holds.
perl -CS -e '
  use utf8;
  my ($messages, $entries) = map { open my $f, "<:utf8", $_ or die; [<$f>] } @ARGV;
  chomp(@$messages, @$entries);
  my %used;
  for my $message (@$messages) {
    my ($file, $text) = split /\t/, $message;
    my $known = 0;
    for my $entry (@$entries) {
      my $pattern = join ".*", map quotemeta, split /…/, $entry;
      $known = $used{$entry} = 1 if $text =~ /$pattern/;
    }
    print "unlisted: $message\n" unless $known;
  }
  for (@$entries) { print "nobody says: $_\n" unless $used{$_} }
' "$work/messages" "$work/entries" >"$work/differences"
for kind in unlisted "nobody says"; do
  if lines=$(grep "^$kind: " "$work/differences"); then
    fail "docs/errors.md and the headers differ; $(wc -l <<<"$lines") are:"
    echo "$lines"
  else
    pass
  fi
done
finish
