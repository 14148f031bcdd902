"""From one observed state and one question to splits and moves with reasons."""
