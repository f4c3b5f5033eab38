"""Numbers as people write them."""

from __future__ import annotations

import math


def plain(value: float, digits: int = 4) -> str:
    """A number with ``digits`` significant digits, commas between thousands, and no exponent unless
    there is no reading it otherwise.

    >>> [plain(x) for x in (21580.4, 1234567.0, 3.14159, -0.00123456, 12.0, 0.0)]
    ['21,580', '1,234,567', '3.142', '-0.001235', '12', '0']
    >>> plain(1.5e20), plain(2e-9)
    ('1.5e+20', '2e-09')
    """
    if value == 0 or not math.isfinite(value) or not 1e-6 <= abs(value) < 1e15:
        return f"{value:.{digits}g}"
    before = math.floor(math.log10(abs(value))) + 1
    text = f"{value:,.{max(0, digits - before)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
