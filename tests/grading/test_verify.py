"""What agrees with what. Every pair was decided by hand."""

import pytest

pytest.importorskip("math_verify")

from ktae.grading.verdict import Outcome
from ktae.grading.verify import verify

AGREE = [
    ("5", "5"),
    ("025", "25"),
    ("142", "142.0"),
    ("-3", "−3"),
    ("0.5", r"\frac12"),
    ("1/2", r"\dfrac{1}{2}"),
    (r"\frac{7}{20}", "0.35"),
    (r"2\frac{1}{2}", "2.5"),
    ("0.333333", r"\frac{1}{3}"),
    ("1e-5", "10^{-5}"),
    (r"1e11", r"10^{11}"),
    (r"4.5 \times 10^{33}", "4.5e33"),
    (r"\frac{1}{3}", r"0.\overline{3}"),
    (r"\frac{50}{3}", r"16.\overline{6}"),
    (r"-\frac{1}{6}", r"-0.1\bar{6}"),
    # units, currency, percents, thousands
    ("36", r"36 \text{ cm}^2"),
    ("27", "27 miles"),
    ("5 m/s", r"5 \mathrm{~m/s}"),
    ("50", r"\$50"),
    ("45", r"45^\circ"),
    ("45", r"45^{\circ}"),
    ("12", r"12^{\text{th}}"),
    (r"0.003^{\prime \prime}", "0.003"),
    ("10", r"10\%"),
    (r"10 \%", "0.1"),
    ("17.5%", "17.5"),
    ("10080", r"10,\!080"),
    ("10{,}000", "10000"),
    ("12345", r"\text{12,345}"),
    ("36", "36 centimeters squared"),
    ("12", "12 quarters"),
    ("12", "12 ninth graders"),
    (r"3 \text{ million}", "3 million"),
    (r"5 \text{ or more}", "5"),
    ("32348", r"\$32,348"),
    ("1234567", "1,234,567"),
    ("18", "18 元"),
    ("18", "18个"),
    ("7", r"7\text{ 千克}"),
    ("18", "18 рублей"),
    ("18", "18 dólares"),
    ("18", "¥18"),
    (r"20.0\%", r"20\%"),
    ("3/2", "1 1/2"),
    (r"2\ 1/2", r"2\frac12"),
    ("-5/2", "-2 1/2"),
    ("10", r"\text{10 cm}"),
    ("5", r"\text{5 apples}"),
    ("42", r"\bf 42"),
    ("42", r"\boldsymbol{42}"),
    ("3.14", r"\approx 3.14"),
    *[("12", f"12 {unit}") for unit in ("cm²", "m²", "m^3", "°C", r"^\circ F", "L", "mL")],
    ("12", r"12 \frac{\text{m}}{\text{s}}"),
    ("12", r"12 \frac{\mathrm{m}}{\mathrm{s}^2}"),
    # Unicode
    (r"\sqrt{2}", "√2"),
    (r"2\sqrt{3}", "2√3"),
    (r"\sqrt{x+1}", "√(x+1)"),
    (r"\infty", "∞"),
    (r"(-\infty, 3]", "(−∞, 3]"),
    ("0.5", "½"),
    ("5/2", "2½"),
    ("x^2", "x²"),
    ("x^{-12}", "x⁻¹²"),
    ("15", "3·5"),
    (r"2\pi", "2π"),
    # dates, clock times, ratios
    ("01/31/2011", "1/31/2011"),
    ("12:30", r"12:30 \text{ PM}"),
    ("1:2", "2:4"),
    ("1:2", r"\frac{1}{2}"),
    # intervals, tuples, sets, lists
    ("(1, 2)", r"\left(1,2\right)"),
    ("(1,2,3)", r"\left\langle 1,2,3\right\rangle"),
    ("[0, 4)", r"\left[0, 4\right)"),
    (r"(-\infty, 2) \cup (3, \infty)", r"(-\infty,2)\cup(3,\infty)"),
    (r"t(0,4]", "(0, 4]"),
    ("[0,1)", r"0\le x<1"),
    (r"0\le x<1", "[0,1)"),
    (r"[3,\infty)", r"x\geq 3"),
    (r"(-\infty,2)\cup(3,\infty)", r"x<2 \text{ or } x>3"),
    (r"x<2 \text{ or } x>3", r"(-\infty,2)\cup(3,\infty)"),
    (r"(-\infty,\infty)", r"\mathbb R"),
    (r"\emptyset", r"\varnothing"),
    (r"\left( 3, \frac{\pi}{2} \right)", "(3, 0.5\\pi)"),
    (r"\{1, 2\}", "2, 1"),
    (r"\{1, 2\}", "1 or 2"),
    ("1, 2, 3", r"3, 1 \text{ and } 2"),
    ("-2,-2", "a = -2, b = -2"),
    ("27,54,108,135,189", "27, 54, 108, 135, 189"),
    ("(2,251,252)", "(2, 251, 252)"),
    ("[-36,104]", "[-36, 104]"),
    (r"\{100,200\}", "200, 100"),
    ("70,110", "110, 70"),
    ("70,110", "70110"),
    ("0,100", "100, 0"),
    ("1,-1,7,-7", r"\pm 1, \pm 7"),
    (r"\pm 3", "3, -3"),
    ("x=1, y=2", "y=2, x=1"),
    ("x=1, y=2", "(1, 2)"),
    ("(x, y) = (1, 2)", "x=1, y=2"),
    ("1, 2", r"x = 1 \text{ and } y = 2"),
    ("x_1 = 1, x_2 = 2", "2, 1"),
    ("E_{1},E_{2}", r"E_1 \text{ and } E_2"),
    # matrices and vectors
    (
        r"\begin{pmatrix} -1/3 \\ 2/3 \end{pmatrix}",
        r"\begin{pmatrix} -\frac{1}{3} \\ \frac{2}{3} \end{pmatrix}",
    ),
    (
        r"\begin{pmatrix}1&2\\3&4\end{pmatrix}",
        r"\begin{bmatrix} 1 & 2 \\ 3 & 4 \end{bmatrix}",
    ),
    # numbers in a base
    ("4343_6", "4343_{6}"),
    ("4343_6", "4343"),
    ("4343_6", "4343_{\\text{six}}"),
    # expressions
    ("x^2 + 2x + 1", "(x+1)^2"),
    (r"2\sqrt{3}", r"\sqrt{12}"),
    (r"\frac{\pi}{3}", r"\dfrac\pi3"),
    (r"\frac{a}{b}", r"\frac ab"),
    (r"\frac{\sqrt{x}}{2}", r"\frac{\sqrt{x}}2"),
    (r"\frac{\cos(2t)}{15}", r"\frac{1}{15} \cos(2t)"),
    (r"\cosh(at)", r"\frac{1}{2}(e^{at} + e^{-at})"),
    ("x = 5", "5"),
    ("5", "x = 5"),
    (r"m_{\max }=n^{2}-n-1", "n^2 - n - 1"),
    ("2^{2024}", "4^{1012}"),
    (r"1+\sqrt{2}", r"\sqrt{3+2\sqrt{2}}"),
    (r"\binom{50}{25}", r"\frac{50!}{25! 25!}"),
    ("(1/3)!", r"\Gamma(4/3)"),
    # words
    ("Friday, June 3", r"\text{Friday, June 3}"),
    ("Alice, Bob", r"\text{Bob, Alice}"),
    (r"\text{Evelyn}", "Evelyn"),
    ("east", r"\textbf{East}"),
    ("xy", "yx"),
    ("p - q", "p-q"),
    ("mgh", "m g h"),
    (r"\text{(A)}", "A"),
    ("C", r"\text{(C)}"),
    # a choice and its value
    *[
        (answer, given)
        for answer in ("12", "C", r"\text{(C)}")
        for given in (r"\textbf{(C) } 12", r"(C)\ 12", "C. 12", r"\textbf{(C)} \quad 12", "C) 12")
    ],
    (r"\frac{1}{2}", r"\textbf{(A)}\ \frac{1}{2}"),
    ("C", r"\text{option C}"),
    ("Evelyn", "(D) Evelyn"),
    (r"(C) 12", "C"),
]

DIFFER = [
    ("3 m^2", "3 m^3"),
    ("3 m^2", "3"),
    ("8 L", "8"),
    ("5", "6"),
    ("3n", "3"),
    ("3 n", "3"),
    ("2 xy", "2"),
    ("12", "12m^2"),
    ("3", "3²"),
    (r"\sqrt{2}", "√3"),
    ("5.11 \\times 10^{-19}", "2.88 \\times 10^{-19}"),
    (r"4.6 \times 10^{-24}", r"4.57 \times 10^{-24}"),
    ("0.333", r"\frac{1}{3}"),
    ("3.3e-10", r"1.0 \times 10^{33}\%"),
    (r"5\%", r"500\%"),
    (r"20\%", r"0.2\%"),
    ("1 1/2", "11/2"),
    ("33", r"3\overline{3}"),
    (r"\frac{1}{3}", r"0.\overline{34}"),
    (r"\frac{a}{b}", r"\frac ba"),
    ("12", "1 2"),
    ("123", r"1\ 2\ 3"),
    ("23", r"2 \quad 3"),
    ("2^{2024}", "2^{2024}-1"),
    ("2^{2024}-1", "2^{2024}-2"),
    (r"\frac{3^{100}+1}{2}", r"\frac{3^{100}-1}{2}"),
    ("100!+1", "100!"),
    (r"1-\frac{1}{2^{2023}}", "1"),
    ("10^{20}", r"\sqrt{10^{40}+1}"),
    ("1000000", r"1 \text{ million}"),
    ("3 million", "3"),
    (r"3 \text{ million}", "3"),
    ("2", r"2 \text{ thirds}"),
    ("5", "5 tenths"),
    ("3", "3 thousandths"),
    ("4", "4 squared"),
    ("5", "5 factorial"),
    ("18", "18 万元"),
    ("3", "3 mil"),
    ("3", "3 millones"),
    ("18", "18 тысяч"),
    ("18", "18和20"),
    ("01/02/2011", "02/04/2011"),
    ("24:60", "12:30"),
    ("12:30", "24:60"),
    ("(2,251,252)", "2251252"),
    ("(0,100)", "100"),
    ("[-36,104]", "-36104"),
    ("2251", "2, 251"),
    ("1234567", "1234568"),
    ("1234567.0", "1234568.0"),
    ("(1, 2)", "(2, 1)"),
    ("x=1, y=2", "(2, 1)"),
    ("x=1, y=2", "(x, y) = (2, 1)"),
    ("2, 1", "x=1, y=2"),
    ("(1, 2)", "[1, 2]"),
    ("[0, 4)", "[0, 4]"),
    ("[0,1)", r"0\le x\le 1"),
    (r"(-\infty,2)\cup(3,\infty)", r"x<2 \text{ or } x\geq 3"),
    (r"\mathbb R", "5"),
    (r"\emptyset", "0"),
    ("1, 2", "1, 2, 3"),
    ("1, 1, 2", "1, 2, 2"),
    ("2", "2, 3"),
    ("2, 3", "2"),
    ("(1, 234)", "1234"),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix}1&3\\2&4\end{pmatrix}"),
    ("x + 1", "x - 1"),
    ("x + 1", "y + 1"),
    (r"\sqrt{2}", "1.41"),
    ("east", "west"),
    (r"\text{CBAD}", "ABCD"),
    (r"\text{ACF}", "AFC"),
    ("HTT", "TTH"),
    ("4343_6", "4343_5"),
    ("4343_{6}", r"(4343)_{5}"),
    (r"\text{A5}_{11}", r"\text{A5}_{12}"),
    (r"\text{east}", r"\text{seat}"),
    (r"\text{no}", "on"),
    ("C", "D"),
    ("13", r"\textbf{(C) } 12"),
    ("A", "C. 12"),
    ("12", "C"),
    ("12", "C 12"),
    ("5", "A(5)"),
    ("5", "(E) + 5"),
    ("A", "(A) 12, (B) 15"),
    ("5", r"\frac{1}{0}"),
    ("7", ")("),
]


@pytest.mark.parametrize(("answer", "given"), AGREE)
def test_agree(answer: str, given: str) -> None:
    verdict = verify(rf"So it is \boxed{{{given}}}.", [answer])
    assert verdict.outcome is Outcome.CORRECT, verdict


@pytest.mark.parametrize(("answer", "given"), DIFFER)
def test_differ(answer: str, given: str) -> None:
    verdict = verify(rf"So it is \boxed{{{given}}}.", [answer])
    assert verdict.outcome is Outcome.INCORRECT, verdict


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ("The answer is (A) 5.", "A"),
        ("The answer is (A) 5.", "5"),
        ("The answer is (A) $5$.", "A"),
        ("The answer is option C.", "C"),
    ],
)
def test_a_stated_choice(response: str, answer: str) -> None:
    assert verify(response, [answer]).outcome is Outcome.CORRECT


def test_one_of_several_answers_is_enough() -> None:
    assert verify(r"\boxed{x-1}", ["y", "x - 1"]).outcome is Outcome.CORRECT
    assert verify(r"\boxed{x-2}", ["y", "x - 1"]).outcome is Outcome.INCORRECT


@pytest.mark.parametrize("gold", ["", "$$", r"\frac{1}{", r"}{", r"\sqrt{", r"a \text{ is } {"])
def test_an_accepted_answer_that_does_not_parse_leaves_it_undecided(gold: str) -> None:
    for response in (r"\boxed{5}", "I do not know."):
        verdict = verify(response, [gold])
        assert verdict.outcome is Outcome.UNDECIDED
        assert verdict.correct is None
        assert verdict.reason.startswith("the accepted answer does not parse: ")


def test_an_unparsable_answer_beside_a_good_one() -> None:
    assert verify(r"\boxed{5}", [r"\frac{1}{", "5"]).outcome is Outcome.CORRECT
    assert verify(r"\boxed{6}", [r"\frac{1}{", "5"]).outcome is Outcome.UNDECIDED
    assert verify("I do not know.", [r"\frac{1}{", "5"]).outcome is Outcome.UNANSWERED


def test_the_verdict_names_answer_rule_and_comparison() -> None:
    verdict = verify(r"\boxed{1} or rather \boxed{\frac12}", ["0.5"])
    assert verdict == (Outcome.CORRECT, r"\frac12", "boxed, same number")
    assert (verdict.correct, verify(r"\boxed{3}", ["0.5"]).correct) == (1.0, 0.0)
    assert verify("Nothing to say.", ["0.5"]) == (Outcome.UNANSWERED, None, "no answer found")
    assert verify("Nothing to say.", ["0.5"]).correct == 0.0
