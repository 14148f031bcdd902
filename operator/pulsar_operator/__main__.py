"""``python -m pulsar_operator``."""

from pulsar_operator.main import main

if __name__ == "__main__":
    main()
