package faults_test

import (
	"fmt"
	"strings"
)

// hostileBodies are JSON, or nearly, that a parser may trip over.
func hostileBodies() map[string]string {
	deep := func(n int, open, closing string) string { return strings.Repeat(open, n) + strings.Repeat(closing, n) }
	job := func(payload string) string { return `{"type":"hostile","queue":"hostile","payload":` + payload + `}` }
	return map[string]string{
		"empty":                       "",
		"white space":                 " \n\t",
		"null":                        "null",
		"an array":                    "[]",
		"a number":                    "1",
		"a text":                      `"text"`,
		"cut off":                     `{"type":"hostile"`,
		"two values":                  `{"type":"hostile"}{"type":"hostile"}`,
		"garbage behind":              `{"type":"hostile"} x`,
		"a comment":                   `{"type":"hostile"/* */}`,
		"a byte order mark":           "\ufeff" + `{"type":"hostile"}`,
		"not UTF-8":                   "{\"type\":\"hostile\",\"payload\":\"\xff\xfe\"}",
		"overlong UTF-8":              "{\"type\":\"hostile\",\"payload\":\"\xc0\xaf\"}",
		"UTF-16":                      "\xff\xfe{\x00}\x00",
		"a raw NUL":                   "{\"type\":\"hostile\",\"payload\":\"\x00\"}",
		"an escaped NUL":              job(`"\u0000"`),
		"an escaped NUL in a name":    `{"type":"host\u0000ile"}`,
		"an escaped NUL in metadata":  `{"type":"hostile","metadata":{"a\u0000":"b\u0000"}}`,
		"an escaped NUL in a key":     `{"type":"hostile","dedupe_key":"a\u0000"}`,
		"an escaped NUL in a tag":     `{"type":"hostile","tags":["a\u0000"]}`,
		"a lone high surrogate":       job(`"\ud800"`),
		"a lone low surrogate":        job(`{"\udc00":"\udfff"}`),
		"swapped surrogates":          job(`"\udc00\ud800"`),
		"a surrogate in metadata":     `{"type":"hostile","metadata":{"a":"\ud800"}}`,
		"1e400":                       job("1e400"),
		"-1e400":                      job(`[-1e400,1e-400]`),
		"a very long number":          job(strings.Repeat("9", 10_000)),
		"a very long exponent":        job("1e" + strings.Repeat("9", 1000)),
		"priority 1e400":              `{"type":"hostile","priority":1e400}`,
		"priority 1.5":                `{"type":"hostile","priority":1.5}`,
		"priority 5e0":                `{"type":"hostile","priority":5e0}`,
		"priority -0":                 `{"type":"hostile","priority":-0}`,
		"priority beyond int64":       `{"type":"hostile","priority":92233720368547758080}`,
		"max_attempts beyond int32":   `{"type":"hostile","max_attempts":4294967297}`,
		"delay beyond int64":          `{"type":"hostile","delay_ms":9223372036854775807}`,
		"delay least":                 `{"type":"hostile","delay_ms":-9223372036854775808}`,
		"timeout beyond":              `{"type":"hostile","timeout_ms":9223372036854775807}`,
		"retry beyond":                `{"type":"hostile","retry":{"base_ms":9223372036854775807,"cap_ms":1,"jitter":1e308}}`,
		"NaN":                         job("NaN"),
		"a leading zero":              job("01"),
		"hexadecimal":                 job("0x1"),
		"depth 32":                    job(deep(31, "[", "]")),
		"depth 33":                    job(deep(33, "[", "]")),
		"depth 100,000":               job(deep(100_000, "[", "]")),
		"depth 100,000, not closed":   strings.Repeat(`{"type":`, 100_000),
		"objects 10,000 deep":         job(strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000)),
		"a duplicate member":          `{"type":"hostile","type":"other"}`,
		"a duplicate by escapes":      `{"type":"hostile","\u0074ype":"other"}`,
		"a case variant":              `{"type":"hostile","Type":"other"}`,
		"a case variant alone":        `{"TYPE":"hostile"}`,
		"a Kelvin sign":               `{"type":"hostile","worKer_id":"x"}`,
		"an unknown member":           `{"type":"hostile","tenant":"other"}`,
		"a prototype":                 `{"type":"hostile","__proto__":{"admin":true}}`,
		"wrong types":                 `{"type":{},"queue":[],"payload":1,"priority":"5","tags":"x","metadata":[],"retry":1}`,
		"names with a path":           `{"type":"../../etc/passwd"}`,
		"names with SQL":              `{"type":"x'; DROP TABLE jobs; --"}`,
		"a name with a line":          `{"type":"a\r\nX-Injected: 1"}`,
		"a time that is none":         `{"type":"hostile","run_at":"2026-02-30T25:61:61Z"}`,
		"the year 0":                  `{"type":"hostile","run_at":"0000-01-01T00:00:00Z"}`,
		"the year 9999":               `{"type":"hostile","deadline":"9999-12-31T23:59:59Z"}`,
		"the year 99999":              `{"type":"hostile","run_at":"99999-12-31T23:59:59Z"}`,
		"a time far in the past":      `{"type":"hostile","run_at":"-292277022399-01-01T00:00:00Z"}`,
		"a payload of 256 KiB":        job(`"` + strings.Repeat("x", 256<<10-2) + `"`),
		"a payload one byte too long": job(`"` + strings.Repeat("x", 256<<10-1) + `"`),
		"oversize":                    job(`"` + strings.Repeat("x", 2<<20) + `"`),
		"oversize white space":        strings.Repeat(" ", 9<<20),
		"1,000,000 members":           job("{" + strings.TrimSuffix(strings.Repeat(`"a":1,`, 100_000), ",") + "}"),
		"17 tags":                     `{"type":"hostile","tags":["` + strings.Join(numbered(17), `","`) + `"]}`,
		"a batch of nothing":          `{"jobs":[]}`,
		"a batch of nulls":            `{"jobs":[null,null]}`,
		"a batch of 1,001":            `{"jobs":[` + strings.TrimSuffix(strings.Repeat(`{"type":"hostile"},`, 1001), ",") + `]}`,
		"a batch within a batch":      `{"jobs":[{"jobs":[]}]}`,
		"a token that is none":        `{"lease_token":"x"}`,
		"an empty token":              `{"lease_token":""}`,
		"a token of zeros":            `{"lease_token":"` + strings.Repeat("A", 75) + `"}`,
		"a long token":                `{"lease_token":"` + strings.Repeat("A", 100_000) + `"}`,
		"an error with NULs":          `{"lease_token":"` + strings.Repeat("A", 75) + `","error":{"type":"\u0000","message":"\u0000\ud800","stack":"\u0000"}}`,
		"outcomes of nothing":         `{"outcomes":[{},null,{"kind":"nothing"}]}`,
		"a claim of everything":       `{"worker_id":"w","queues":["` + strings.Join(numbered(101), `","`) + `"],"max":1000000,"wait_ms":1e9}`,
		"a claim with NULs":           `{"worker_id":"w\u0000","queues":["q\u0000"]}`,
		"a negative wait":             `{"worker_id":"w","queues":["q"],"wait_ms":-1,"max":-1}`,
	}
}

func numbered(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint("n", i)
	}
	return all
}

// hostileWords are ids, tokens, cursors and keys.
func hostileWords() []string {
	return []string{
		"x", "%00", "%2e%2e", "..%2f..%2fadmin", "%", "%zz", "%ff", "%c0%af", "-1", "0", "null", "{}", "'--", "%27%20OR%201=1",
		"01890000-0000-7000-8000-000000000000", "01890000000070008000000000000000", "{01890000-0000-7000-8000-000000000000}",
		"urn:uuid:01890000-0000-7000-8000-000000000000", "01890000-0000-7000-8000-00000000000G", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",
		strings.Repeat("A", 75), strings.Repeat("a", 8000), "%F0%9F%92%A9", "%0d%0aX-Injected:%201", "a+b", "a%20b", ";a=b",
		"eyJhIjoxfQ", "AAAA", "////", "%2F", "☃",
	}
}

// smuggled are requests that two servers in a row may cut differently. Each ends
// in a second request that must never be served by itself.
func smuggled(host, key string) map[string]string {
	const inner = "POST /v1/jobs HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 19\r\n\r\n{\"type\":\"smuggled\"}"
	second := fmt.Sprintf(inner, host, key)
	head := func(lines ...string) string {
		return "POST /v1/jobs HTTP/1.1\r\nHost: " + host + "\r\nAuthorization: Bearer " + key +
			"\r\nContent-Type: application/json\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n"
	}
	chunked := "0\r\n\r\n"
	return map[string]string{
		"length and chunked":        head("Content-Length: 4", "Transfer-Encoding: chunked") + chunked + second,
		"chunked and length":        head("Transfer-Encoding: chunked", "Content-Length: 5") + chunked + second,
		"two lengths":               head("Content-Length: 2", "Content-Length: 3") + "{}" + second,
		"two lengths in one":        head("Content-Length: 2, 3") + "{}" + second,
		"a length with a sign":      head("Content-Length: +2") + "{}" + second,
		"a negative length":         head("Content-Length: -2") + "{}" + second,
		"a length with a blank":     head("Content-Length: 2 2") + "{}" + second,
		"a hexadecimal length":      head("Content-Length: 0x2") + "{}" + second,
		"a huge length":             head("Content-Length: 99999999999999999999") + "{}" + second,
		"a name with a blank":       head("Content-Length : 2") + "{}" + second,
		"a folded line":             head("X-A: b\r\n Content-Length: 2") + "{}" + second,
		"an unknown coding":         head("Transfer-Encoding: xchunked") + chunked + second,
		"two codings":               head("Transfer-Encoding: gzip, chunked") + chunked + second,
		"a coding twice":            head("Transfer-Encoding: chunked", "Transfer-Encoding: chunked") + chunked + second,
		"a coding and a tab":        head("Transfer-Encoding:\tchunked\v") + chunked + second,
		"a bad chunk size":          head("Transfer-Encoding: chunked") + "zz\r\n{}\r\n0\r\n\r\n" + second,
		"a huge chunk size":         head("Transfer-Encoding: chunked") + "FFFFFFFFFFFFFFFFF\r\n{}\r\n0\r\n\r\n" + second,
		"bare line feeds and both":  strings.ReplaceAll(head("Content-Length: 4", "Transfer-Encoding: chunked"), "\r\n", "\n") + chunked + second,
		"a chunk without its end":   head("Transfer-Encoding: chunked") + "2\r\n{}XX0\r\n\r\n" + second,
		"a long chunk extension":    head("Transfer-Encoding: chunked") + "2;" + strings.Repeat("a", 100_000) + "\r\n{}\r\n0\r\n\r\n" + second,
		"a bare carriage return":    head("X-A: b\rContent-Length: 2") + "{}" + second,
		"a NUL in a header":         head("X-A: \x00", "Content-Length: 2") + "{}" + second,
		"no host":                   "POST /v1/jobs HTTP/1.1\r\nContent-Length: 0\r\n\r\n" + second,
		"two hosts":                 head("Host: other", "Content-Length: 2") + "{}" + second,
		"an unknown version":        "POST /v1/jobs HTTP/9.9\r\nHost: " + host + "\r\n\r\n" + second,
		"no version":                "POST /v1/jobs\r\n\r\n" + second,
		"a long target":             "GET /" + strings.Repeat("a", 100_000) + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n" + second,
		"a header of 100 kB":        head("X-A: "+strings.Repeat("a", 100_000), "Content-Length: 2") + "{}" + second,
		"10,000 headers":            head(strings.TrimSuffix(strings.Repeat("X-A: b\r\n", 10_000), "\r\n"), "Content-Length: 2") + "{}" + second,
		"expects what is unknown":   head("Expect: 200-ok", "Content-Length: 2") + "{}" + second,
		"the HTTP/2 preface":        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + second,
		"TLS to a plain port":       "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + second,
		"an absolute target":        "POST http://other/v1/jobs HTTP/1.1\r\nHost: " + host + "\r\nContent-Length: 0\r\n\r\n",
		"a target with credentials": "GET //user@other/v1/jobs HTTP/1.1\r\nHost: " + host + "\r\n\r\n",
	}
}
