package request_test

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/forgequeue/forgequeue/gateway/internal/request"
)

func fingerprint(t interface{ Fatalf(string, ...any) }, body string) string {
	sum, err := request.Fingerprint([]byte(body))
	if err != nil {
		t.Fatalf("Fingerprint(%.100q): %v", body, err)
	}
	return sum
}

func TestFingerprint(t *testing.T) {
	t.Parallel()
	same := [][]string{
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, " {\n\"a\" : 1.0 ,\t\"b\":2e0}\r\n"},
		{`1`, `1.0`, `1e0`, `10e-1`, `0.1e1`, `1E+0`, `100e-02`, `1.000e-0`},
		{`0`, `-0`, `0.0`, `-0e5`, `0e99999999999999999999`},
		{`1e400`, `10e399`, `0.1e401`},
		{`1e1000000000`, `10e999999999`},
		{`1e100000000000000000000`, `10e99999999999999999999`, `0.01e100000000000000000002`},
		{`1e-100000000000000000000`, `0.1e-99999999999999999999`, `10e-100000000000000000001`},
		{`1e1000000000000000000`, `10e999999999999999999`},
		{`"é€😀"`, `"\u00e9\u20ac\ud83d\ude00"`},
		{`"\/\n"`, `"/\u000a"`},
		{`{"\u0061":[{}]}`, `{"a":[{}]}`},
	}
	seen := map[string]string{}
	for _, spellings := range same {
		want := fingerprint(t, spellings[0])
		if other, taken := seen[want]; taken {
			t.Errorf("%s and %s have the same fingerprint", other, spellings[0])
		}
		seen[want] = spellings[0]
		for _, spelling := range spellings[1:] {
			if fingerprint(t, spelling) != want {
				t.Errorf("%s and %s differ", spellings[0], spelling)
			}
		}
	}
	for _, body := range []string{
		`9007199254740992`, `9007199254740993`, `1e-1`, `-1`, `11`, `"1"`, `[1]`, `null`, `true`, `false`, `""`, `{}`, `[]`, `[[]]`,
		`{"a":null}`, `{"a":1}`, `["a",1]`, `{"a":"b"}`, `["a","b"]`, `"a\",\"b"`, `1e1000000001`, `1e100000000000000000001`,
	} {
		sum := fingerprint(t, body)
		if other, taken := seen[sum]; taken {
			t.Errorf("%s and %s have the same fingerprint", other, body)
		}
		seen[sum] = body
	}
}

func TestFingerprintOfNoJSON(t *testing.T) {
	t.Parallel()
	for _, body := range []string{``, `{`, `[1,`, `{"a"`, `{"a":}`, `01`, `"\ud800"`, `{"a":1,"a":2}`} {
		if sum, err := request.Fingerprint([]byte(body)); err == nil {
			t.Errorf("%s has the fingerprint %s", body, sum)
		}
	}
}

// An exponent of a megabyte is as good as any other, and costs no more than to read.
func TestFingerprintOfAHugeExponent(t *testing.T) {
	t.Parallel()
	nines := strings.Repeat("9", 1<<20)
	if fingerprint(t, "10e"+nines) != fingerprint(t, "1e1"+strings.Repeat("0", 1<<20)) {
		t.Error("10e999… and 1e1000… differ")
	}
	zeros := strings.Repeat("0", 1<<20)
	if fingerprint(t, "1"+zeros) != fingerprint(t, fmt.Sprintf("1e%d", 1<<20)) {
		t.Error("1000… and its short form differ")
	}
}

// Two numbers have the same fingerprint exactly if they are the same number.
func TestFingerprintOfNumbersIsExact(t *testing.T) {
	t.Parallel()
	number := rapid.StringMatching(`-?(0|[1-9][0-9]{0,3})(\.[0-9]{1,4})?([eE][+-]?[0-9]{1,2})?`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := number.Draw(t, "a"), number.Draw(t, "b")
		x, _ := new(big.Rat).SetString(a)
		y, _ := new(big.Rat).SetString(b)
		if same := fingerprint(t, a) == fingerprint(t, b); same != (x.Cmp(y) == 0) {
			t.Fatalf("%s and %s: same fingerprint %v", a, b, same)
		}
	})
}

// However a value is spelled, its fingerprint is the same.
func TestFingerprintIgnoresSpelling(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := drawValue(t, 4)
		if a, b := v.spell(t), v.spell(t); fingerprint(t, a) != fingerprint(t, b) {
			t.Fatalf("%s and %s differ", a, b)
		}
	})
}

// value is a JSON value apart from its spelling.
type value struct {
	kind    string
	text    string // of a string or a literal
	digits  int64  // of a number: digits·10^exponent
	power   int
	items   []value
	members map[string]value
}

func drawValue(t *rapid.T, depth int) value {
	kinds := []string{"literal", "string", "number"}
	if depth > 0 {
		kinds = append(kinds, "array", "object")
	}
	v := value{kind: rapid.SampledFrom(kinds).Draw(t, "kind")}
	switch v.kind {
	case "literal":
		v.text = rapid.SampledFrom([]string{"null", "true", "false"}).Draw(t, "literal")
	case "string":
		v.text = rapid.String().Draw(t, "string")
	case "number":
		v.digits, v.power = rapid.Int64().Draw(t, "digits"), rapid.IntRange(-400, 400).Draw(t, "power")
	case "array":
		for range rapid.IntRange(0, 4).Draw(t, "length") {
			v.items = append(v.items, drawValue(t, depth-1))
		}
	case "object":
		v.members = map[string]value{}
		for range rapid.IntRange(0, 4).Draw(t, "size") {
			v.members[rapid.String().Draw(t, "name")] = drawValue(t, depth-1)
		}
	}
	return v
}

func (v value) spell(t *rapid.T) string {
	space := rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "space")
	switch v.kind {
	case "string":
		return space + spellString(t, v.text) + space
	case "number":
		zeros := rapid.IntRange(0, 5).Draw(t, "zeros")
		return space + strconv.FormatInt(v.digits, 10) + "." + strings.Repeat("0", zeros+1) + "e" + strconv.Itoa(v.power)
	case "array":
		var items []string
		for _, item := range v.items {
			items = append(items, item.spell(t))
		}
		return space + "[" + strings.Join(items, ",") + "]"
	case "object":
		var members []string
		for name, member := range v.members {
			members = append(members, spellString(t, name)+":"+member.spell(t))
		}
		if len(members) > 1 {
			members = rapid.Permutation(members).Draw(t, "order")
		}
		return "{" + space + strings.Join(members, ",") + space + "}"
	}
	return space + v.text
}

// spellString escapes characters at random, and those that need it always.
func spellString(t *rapid.T, text string) string {
	var spelled strings.Builder
	spelled.WriteByte('"')
	for _, c := range text {
		switch {
		case c < ' ' || c == '"' || c == '\\' || (c < 0x10000 && rapid.Bool().Draw(t, "escape")):
			fmt.Fprintf(&spelled, `\u%04x`, c)
		default:
			spelled.WriteRune(c)
		}
	}
	return spelled.String() + `"`
}
