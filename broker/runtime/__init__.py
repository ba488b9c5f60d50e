"""What every part of a node uses: clocks, steps of long work, names, answers that come later."""
