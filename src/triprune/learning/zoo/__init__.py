"""The networks that the paper prunes on CIFAR-10 and TinyImageNet, one family a module."""
