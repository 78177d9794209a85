package job

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
)

// variable matches what differs between two errors of one cause: numbers, and hexadecimal runs such
// as addresses and ids.
var variable = regexp.MustCompile(`0x[0-9a-fA-F]+|[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|[0-9a-fA-F]{16,}|[0-9]+`)

// Fingerprint groups dead letters of one cause: job type, reason, error type and the first kilobyte
// of the message without numbers and ids. 16 hex digits.
func Fingerprint(jobType string, reason Reason, errorType, message string) string {
	const enough = 1024
	if len(message) > enough {
		message = message[:enough]
	}
	hash := sha256.New()
	for _, part := range []string{jobType, string(reason), errorType, variable.ReplaceAllString(message, "#")} {
		_, _ = hash.Write([]byte(part)) // a hash never fails
		_, _ = hash.Write([]byte{0})
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}
