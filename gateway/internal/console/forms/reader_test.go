package forms

import (
	"net/url"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
)

// What could be read in two ways is refused in every kind of field, with an example of what is taken.
func TestAFormsNumbersAreReadInOneWay(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		number, seconds float64
		whole           int64
	}{
		"10000": {10000, 10000000, 10000}, " 7 ": {7, 7000, 7}, "-3": {-3, -3000, -3}, "0.5": {0.5, 500, -1}, "1.0010": {1.001, 1001, -1},
		"1.5": {1.5, 1500, -1}, "0.001": {0.001, 1, -1}, "1234.567": {1234.567, 1234567, -1},
		"10,000": {-1, -1, -1}, "1.000": {-1, -1, -1}, "10.000": {-1, -1, -1}, "1,5": {-1, -1, -1}, "1 000": {-1, -1, -1}, "1\u202f000": {-1, -1, -1},
		"1e3": {-1, -1, -1}, "+5": {-1, -1, -1}, "0x10": {-1, -1, -1}, "NaN": {-1, -1, -1}, "1_000": {-1, -1, -1}, "1'000": {-1, -1, -1},
		"99999999999999999999": {-1, -1, -1}, "1.00055": {1.00055, -1, -1}, ".5": {-1, -1, -1}, "5.": {-1, -1, -1}, "1,000,000": {-1, -1, -1},
	} {
		form := Reader{Values: url.Values{"f": {text}}}
		number, whole, seconds := form.Number("f"), form.Whole("f"), form.Seconds("f")
		if got := orMinusOne(number); got != want.number {
			t.Errorf("the number %q is %v, want %v", text, got, want.number)
		}
		if got := orMinusOne(whole); got != want.whole {
			t.Errorf("the whole number %q is %v, want %v", text, got, want.whole)
		}
		if got := orMinusOne(seconds); float64(got) != want.seconds {
			t.Errorf("the seconds %q are %v ms, want %v", text, got, want.seconds)
		}
		for _, wrong := range form.Wrong {
			if !strings.ContainsAny(wrong.Message, "0123456789") {
				t.Errorf("%q is refused without an example: %s", text, wrong.Message)
			}
		}
	}
}

// Amounts are read as they are written, also one in each line; what cannot be read is refused with an example.
func TestAmountsOfBudgets(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", " , ": "", "tokens=500": "tokens=500", " tokens = 500 ,\r\ncents=3\n": "cents=3, tokens=500", "a:b.c=0,": "a:b.c=0", "a=-1": "a=-1",
	} {
		form := Reader{Values: url.Values{"f": {text}}}
		if got := AmountsText(form.Amounts("f")); got != want || len(form.Wrong) > 0 {
			t.Errorf("%q is %q %v, want %q", text, got, form.Wrong, want)
		}
	}
	for text, want := range map[string]string{
		"tokens": `"tokens" is not budget=amount`, "=5": `"=5" is not budget=amount`, "tokens=10,000": `"000" is not budget=amount`, "tokens: 5": "is not budget=amount",
		"tokens=": "digits alone", "tokens=1.5": "digits alone", "tokens=x": "digits alone", "tokens=+5": "digits alone", "a=1=2": "digits alone", "a=99999999999999999999": "digits alone",
		"a=1, a=2": `"a" is there twice`,
	} {
		form := Reader{Values: url.Values{"f": {text}}}
		form.Amounts("f")
		if len(form.Wrong) != 1 || form.Wrong[0].Field != "f" || !strings.Contains(form.Wrong[0].Message, want) {
			t.Errorf("%q is refused with %v, want %q", text, form.Wrong, want)
		}
	}
}

func orMinusOne[T int64 | float64](n *T) T {
	if n == nil {
		return -1
	}
	return *n
}

// What a form shows is read as what it is: a form that is saved unchanged changes nothing.
func TestAFormUnchangedChangesNothing(t *testing.T) {
	t.Parallel()
	for ms := int64(1); ms < 2_000_000; ms += 1 + ms/50_000 {
		form := Reader{Values: url.Values{"f": {view.Input(float64(ms) / 1000)}}}
		if got := form.Seconds("f"); got == nil || *got != ms {
			t.Fatalf("%d ms are shown as %q and read as %v %v", ms, form.Values.Get("f"), got, form.Wrong)
		}
	}
	for _, rate := range []float64{0.001, 0.2, 1, 1.001, 1.5, 12.345, 999.999, 1000, 1234.567, 333333.333, 1e6, 1e9} {
		form := Reader{Values: url.Values{"f": {view.Input(rate)}}}
		if got := form.Number("f"); got == nil || *got != rate {
			t.Errorf("%v is shown as %q and read as %v %v", rate, form.Values.Get("f"), got, form.Wrong)
		}
	}
}
