#!/usr/bin/env perl
# SPDX-License-Identifier: Apache-2.0
# Prints the messages of headers, one a line: "FILE<tab>TEXT". A message is what the string literals
# of one statement say, if these are three words or more; '…' stands for what a program puts in.
# usage: messages.pl HEADER...
use strict;
use warnings;
for my $file (@ARGV) {
  open my $in, '<', $file or die "messages.pl: $file: $!\n";
  my $code = join '', <$in>;
  # Splits into comments (dropped), literals, and the rest.
  my ($statement, $any) = ('', 0);
  my $end = sub {
    # Adjacent literals are one; what stands between others is put in when the program runs.
    (my $text = $statement) =~ s/\x02\s*\x01//g;
    $text =~ s/^[^\x01]*\x01//;
    $text =~ s/\x02[^\x01\x02]*$//;
    $text =~ s/\x02[^\x01]*\x01/…/g;
    my $words = () = $text =~ /[a-z]{2,}/gi;
    print "$file\t$text\n" if $any && $words >= 3 && $text =~ / /;
    ($statement, $any) = ('', 0);
  };
  while ($code =~ m{//[^\n]*|/\*.*?\*/|R"\((.*?)\)"|"((?:[^"\\]|\\.)*)"|'(?:[^'\\]|\\.)+'|(\d')|(.)}gs) {
    my ($raw, $literal, $other) = ($1, $2, $4);
    if (defined $literal) {
      $literal =~ s/\\n/ /g;
      $literal =~ s/\\(.)/$1/g;
      $statement .= "\x01$literal\x02";
      $any = 1;
    } elsif (defined $other) {
      $statement .= $other;
      $end->() if $other =~ /[;{}]/;
    } elsif (!defined $raw) {
      $statement .= ' ';
    }
  }
}
