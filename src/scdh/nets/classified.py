"""A hash layer with a classifier on top of it, for methods that learn codes by classifying them."""

from scdh.nets.heads import HashHead, linear_head


class ClassifiedHead(HashHead):
    """The hash layer, and a linear classifier that reads its outputs, or what the method makes of them.

    Args:
        width: of what the head reads.
        bits: r.
        num_classes: C.
        std: deviation of the classifier's first weights.
    """

    def __init__(self, width: int, bits: int, num_classes: int, std: float = 0.01) -> None:
        super().__init__(width, bits)
        self.classifier = linear_head(bits, num_classes, std)
