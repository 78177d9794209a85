package broker

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	"github.com/forgequeue/forgequeue/core/internal/outbound"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Protocol is how messages are sent to one kind of broker. A main registers those that its program has.
type Protocol struct {
	// Schemes are those of its URLs.
	Schemes []string
	// Open makes a connection. secure does TLS where a protocol begins it later.
	Open func(ctx context.Context, dial Dial, secure *outbound.Dialer, t *Target) (Connection, error)
}

// Protocols are those of a program.
type Protocols []Protocol

// Lacks says that a program has no protocol for a broker's URL, and which program has; empty if it has one.
func (all Protocols) Lacks(u *url.URL) string {
	if all.of(u.Scheme) != nil {
		return ""
	}
	return fmt.Sprintf("this program was built without %s: the image of core and the released programs have it, "+
		"and so has the result of go build -tags full ./cmd/forgequeue", name(u.Scheme))
}

func name(scheme string) string {
	switch scheme {
	case api.SchemeAMQP, api.SchemeAMQPS:
		return "RabbitMQ"
	case api.SchemeNATS, api.SchemeNATSTLS:
		return "NATS"
	}
	return "Kafka"
}

func (all Protocols) of(scheme string) *Protocol {
	for i := range all {
		if slices.Contains(all[i].Schemes, scheme) {
			return &all[i]
		}
	}
	return nil
}
