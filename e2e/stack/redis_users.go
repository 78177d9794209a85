package stack

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// RedisPassword is that of RedisUsers.
const RedisPassword = "pass/word"

// RedisUsers are the users of api-docs/operations.md, gateway and core, as words of redis-server's command line.
func RedisUsers(tb testing.TB) []string {
	tb.Helper()
	var words []string
	for _, line := range redisUsers(tb) {
		if !strings.HasPrefix(line, "user sentinel ") {
			words = append(append(words, "--user"), strings.Fields(line)[1:]...)
		}
	}
	return words
}

// RedisClusterUsers are RedisUsers in a cluster.
func RedisClusterUsers(tb testing.TB) []string {
	tb.Helper()
	_, rest, found := strings.Cut(operations(tb), "In a cluster add `")
	more, _, ended := strings.Cut(rest, "`")
	if !found || !ended {
		tb.Fatal("operations.md does not say what a cluster needs")
	}
	var words []string
	for _, line := range redisUsers(tb) {
		if !strings.HasPrefix(line, "user sentinel ") {
			words = append(append(append(words, "--user"), strings.Fields(line)[1:]...), strings.Fields(more)...)
		}
	}
	return words
}

// SentinelUser is the line of sentinel.conf in api-docs/operations.md, of the user sentinel.
func SentinelUser(tb testing.TB) string {
	tb.Helper()
	lines := redisUsers(tb)
	i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "user sentinel ") })
	if i < 0 {
		tb.Fatal("operations.md has no user for Sentinel")
	}
	return lines[i]
}

// redisUsers are the lines of the users, with RedisPassword.
func redisUsers(tb testing.TB) (lines []string) {
	tb.Helper()
	for line := range strings.Lines(operations(tb)) {
		if strings.HasPrefix(line, "user ") && strings.Contains(line, ">PASSWORD") {
			lines = append(lines, strings.TrimSpace(strings.Replace(line, "PASSWORD", RedisPassword, 1)))
		}
	}
	if len(lines) == 0 {
		tb.Fatal("operations.md has no users")
	}
	return lines
}

func operations(tb testing.TB) string {
	tb.Helper()
	text, err := os.ReadFile(Repository("api-docs", "operations.md"))
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}
