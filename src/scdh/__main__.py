"""``python -m scdh``, which is also how ``torchrun`` starts several processes of a command."""

from scdh.cli import main

if __name__ == "__main__":
    main()
