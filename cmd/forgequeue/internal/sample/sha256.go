package sample

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/forgequeue/forgequeue/shared/worker"
)

// HashInput is the payload of hash.sha256: exactly one of its fields. An empty
// text is a text; null is absent.
type HashInput struct {
	Text   *string `json:"text,omitzero"`
	Base64 *string `json:"base64,omitzero"`
}

// Hash is the result of hash.sha256.
type Hash struct {
	SHA256 string `json:"sha256"`
	Bytes  int    `json:"bytes"`
}

// SHA256 hashes the text's UTF-8, or the decoded base64. A payload with neither
// fails for good: the next attempt would have the same.
func SHA256(_ context.Context, job *worker.Job[HashInput]) (Hash, error) {
	data, err := job.Payload.bytes()
	if err != nil {
		return Hash{}, worker.Permanent(inputError{err})
	}
	sum := sha256.Sum256(data)
	return Hash{SHA256: hex.EncodeToString(sum[:]), Bytes: len(data)}, nil
}

func (i HashInput) bytes() ([]byte, error) {
	switch {
	case i.Text != nil && i.Base64 != nil:
		return nil, errors.New(`the payload has both "text" and "base64"; give one of them`)
	case i.Text != nil:
		return []byte(*i.Text), nil
	case i.Base64 != nil:
		data, err := base64.StdEncoding.DecodeString(*i.Base64)
		if err != nil {
			return nil, fmt.Errorf(`"base64" is not standard base64 with padding: %w`, err)
		}
		return data, nil
	default:
		return nil, errors.New(`the payload has neither "text" nor "base64"; give one of them`)
	}
}

// inputError is reported under the type "input".
type inputError struct{ error }

func (inputError) ErrorType() string { return "input" }
