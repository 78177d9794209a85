package bridge

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Source is where messages come from.
type Source struct {
	url   *url.URL
	queue string
}

// Parse reads the URL of a source, or says what is wrong with it:
//
//	amqps://user:password@host:5671/queue?vhost=name    and amqp:// without TLS
//	sqs://sqs.eu-central-1.amazonaws.com/123456789012/queue?region=eu-central-1
//	sqs+http://localhost:4566/000000000000/queue?region=eu-central-1
//
// For SQS credentials come from the environment, as for other programs that use AWS.
func Parse(text string) (*Source, error) {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return nil, errors.New("must be a URL such as amqps://user:password@host/queue or sqs://sqs.eu-central-1.amazonaws.com/123456789012/queue")
	}
	s := &Source{url: u}
	path := strings.Split(strings.TrimPrefix(u.EscapedPath(), "/"), "/")
	option := "region"
	switch u.Scheme {
	case "amqp", "amqps":
		option = "vhost"
		if s.queue, err = url.PathUnescape(path[0]); err != nil || len(path) != 1 || s.queue == "" {
			return nil, errors.New("must have a path of one part, the queue, with %2F for a / in its name")
		}
	case "sqs", "sqs+http":
		if len(path) != 2 || path[0] == "" || path[1] == "" {
			return nil, errors.New("must have a path of an account and a queue, as in the queue's own URL")
		}
		if u.User != nil {
			return nil, errors.New("must have no user: the credentials for SQS come from the environment, such as AWS_ACCESS_KEY_ID")
		}
	default:
		return nil, fmt.Errorf("has the scheme %q: it must be amqps, amqp, sqs or sqs+http", u.Scheme)
	}
	for name := range u.Query() {
		if name != option {
			return nil, fmt.Errorf("has the query parameter %q: only %s may be there", name, option)
		}
	}
	return s, nil
}

// String is the source without its password.
func (s *Source) String() string {
	shown := *s.url
	shown.User = nil
	return shown.String()
}

func (s *Source) open(ctx context.Context, prefetch int) (source, error) {
	if strings.HasPrefix(s.url.Scheme, "amqp") {
		return openAMQP(s, prefetch)
	}
	return openSQS(ctx, s)
}
