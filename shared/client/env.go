package client

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/forgequeue/forgequeue/shared/plaintext"
)

// FromEnv makes a client by the variables that the command line has too:
//
//   - FORGEQUEUE_URL, the gateway's address, such as http://127.0.0.1:8080
//   - FORGEQUEUE_API_KEY, the key; or FORGEQUEUE_API_KEY_FILE, a file that holds it
//
// Both are required: the command line takes a local gateway where the first is not set,
// but a program in production must not. change sets what else there is in Options. The
// error names every variable that is missing.
//
//	c, err := client.FromEnv()
//	c, err := client.FromEnv(func(o *client.Options) { o.Logger = logger })
func FromEnv(change ...func(*Options)) (*Client, error) {
	options := Options{URL: os.Getenv("FORGEQUEUE_URL")}
	var faults []error
	if options.URL == "" {
		faults = append(faults, errors.New("FORGEQUEUE_URL is not set: the gateway's address, such as http://127.0.0.1:8080"))
	}
	key, err := keyFromEnv()
	if err != nil {
		faults = append(faults, err)
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("client: %w", errors.Join(faults...))
	}
	options.APIKey = key
	for _, one := range change {
		one(&options)
	}
	return New(options)
}

func keyFromEnv() (string, error) {
	const name, fileName = "FORGEQUEUE_API_KEY", "FORGEQUEUE_API_KEY_FILE"
	if key := os.Getenv(name); key != "" {
		return key, nil
	}
	path := os.Getenv(fileName)
	if path == "" {
		return "", fmt.Errorf("%s is not set: a key with the scopes that this program needs; or %s, a file that holds it", name, fileName)
	}
	text, err := os.ReadFile(path) //nolint:gosec // the file that the user names
	if err != nil {
		return "", fmt.Errorf("%s: %w", fileName, err)
	}
	text, err = plaintext.Decode(text)
	if err != nil {
		return "", fmt.Errorf("%s: %s %w", fileName, path, err)
	}
	key := strings.TrimRight(string(text), "\r\n")
	if key == "" {
		return "", fmt.Errorf("%s: %s is empty", fileName, path)
	}
	return key, nil
}
