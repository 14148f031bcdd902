"""What tests of every subject share: clocks, the loop of virtual time, the journal of calls, small objects."""
