"""The paper's own scores on CartPole with observed states (Huang et al., ICLR 2022), as printed.

Mean and standard deviation over 30 trials. A bullet: AdaRL improves on that baseline by Wilcoxon's signed-rank test at 5%.
"""

from typing import NamedTuple

METHODS = ("oracle", "non_t", "cavia", "pearl", "adarl_star", "adarl")
SOURCES = {"20": "Table A4", "50": "Table 1", "10000": "Table A5"}
"""Which table of the paper holds which number of samples."""


class Published(NamedTuple):
    """One cell of the paper's tables."""

    mean: float
    sd: float
    bullet: bool


_A4 = """
G_in    2486.1 369.7 | 972.6 368.5 • | 1651.5 623.8 • | 1720.3 589.4 • | 1602.7 393.6 • | 1943.2 765.4
G_out   693.9 100.6  | 243.8 45.2 •  | 356.2 76.5     | 362.1 57.3     | 292.4 91.8 •   | 395.6 101.7
M_in    2678.2 630.5 | 480.3 136.2 • | 1306.8 376.5 • | 1589.4 682.3 • | 1624.8 531.6 • | 1962.0 652.8
M_out   1405.6 368.0 | 306.5 162.4 • | 853.2 317.6 •  | 969.4 238.5 •  | 984.6 209.8 •  | 1113.5 394.2
GM_in   1984.2 871.3 | 374.9 126.8 • | 1174.3 298.2 • | 964.3 370.5 •  | 1209.6 425.7 • | 1392.7 392.6
GM_out  939.4 270.5  | 292.4 127.6 • | 494.6 201.3 •  | 368.4 259.8 •  | 399.8 242.5 •  | 531.2 272.5
"""
_1 = """
G_in    2486.1 369.7 | 1098.5 472.1 • | 1603.0 877.4   | 1647.4 617.2   | 1940.5 841.7   | 2217.6 981.5
G_out   693.9 100.6  | 204.6 39.8 •   | 392.0 125.8 •  | 434.5 102.4 •  | 439.5 157.8 •  | 508.3 138.2
M_in    2678.2 630.5 | 748.5 342.8 •  | 2139.7 859.6   | 1784.0 845.3   | 1946.2 496.5 • | 2260.2 682.8
M_out   1405.6 368.0 | 371.0 92.5 •   | 972.6 401.4 •  | 793.9 394.2 •  | 874.5 290.8 •  | 1001.7 273.3
GM_in   1984.2 871.3 | 365.0 144.5 •  | 1012.5 664.9 • | 1260.8 792.0 • | 1157.4 578.5 • | 1428.4 495.6
GM_out  939.4 270.5  | 336.9 139.6 •  | 648.2 481.5 •  | 544.32 175.2 • | 596.0 184.3 •  | 689.4 272.5
"""
_A5 = """
G_in    2486.1 369.7 | 986.3 392.5 • | 1907.4 526.8 • | 2102.3 398.5 • | 1864.0 369.2 • | 2365.1 403.5
G_out   693.9 100.6  | 349.2 72.0 •  | 502.9 133.2 •  | 585.7 98.6 •   | 494.7 151.4 •  | 604.8 117.6
M_in    2678.2 630.5 | 643.9 281.3 • | 2008.6 436.2 • | 2106.2 436.7 • | 2148.9 387.2 • | 2415.2 591.4
M_out   1405.6 368.0 | 617.4 145.3 • | 1182.7 255.8 • | 1294.5 210.6   | 1207.5 251.3   | 1263.5 362.9
GM_in   1984.2 871.3 | 452.6 178.3 • | 1275.0 432.5 • | 1468.7 697.2 • | 1395.4 387.2 • | 1589.4 379.5
GM_out  939.4 270.5  | 596.2 137.5 • | 709.5 386.0 •  | 743.8 200.9 •  | 724.7 283.8    | 769.3 208.4
"""


def _parsed(text: str) -> dict[tuple[str, str], Published]:
    found = {}
    for line in text.strip().splitlines():
        row, cells = line.split(maxsplit=1)
        for method, cell in zip(METHODS, cells.split("|"), strict=True):
            mean, sd, *bullet = cell.split()
            found[row, method] = Published(float(mean), float(sd), bool(bullet))
    return found


SCORES = {"20": _parsed(_A4), "50": _parsed(_1), "10000": _parsed(_A5)}
"""By number of samples, then by row and method."""
