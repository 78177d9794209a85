package job

import (
	"encoding/base64"
	"encoding/binary"
	"errors"

	"github.com/google/uuid"
)

// Lease is what a holder must name to write to a leased job (D2). Epoch counts the claims of the
// job and never decreases; ID is 128 random bits drawn for the claim, because an epoch can repeat
// after an asynchronous failover and a random number cannot. With the tenant, a foreign job is
// detected without a read.
type Lease struct {
	Tenant uuid.UUID
	Job    uuid.UUID
	Epoch  int64
	ID     uuid.UUID
}

const tokenBytes = 16 + 16 + 8 + 16

// ErrToken means that a text is not a lease token.
var ErrToken = errors.New("job: not a lease token")

// Token is the lease as its holder sees it: base64url without padding. It is not signed: it is only
// compared with the job's own row.
func (l Lease) Token() string {
	raw := make([]byte, 0, tokenBytes)
	raw = append(raw, l.Tenant[:]...)
	raw = append(raw, l.Job[:]...)
	raw = binary.BigEndian.AppendUint64(raw, uint64(l.Epoch)) //nolint:gosec // an epoch is never negative
	raw = append(raw, l.ID[:]...)
	return base64.RawURLEncoding.EncodeToString(raw)
}

// ParseToken reads a token. Only the exact encoding of Token is valid.
func ParseToken(token string) (Lease, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) != tokenBytes {
		return Lease{}, ErrToken
	}
	epoch := binary.BigEndian.Uint64(raw[32:40])
	if epoch > 1<<62 {
		return Lease{}, ErrToken
	}
	return Lease{
		Tenant: uuid.UUID(raw[0:16]),
		Job:    uuid.UUID(raw[16:32]),
		Epoch:  int64(epoch),
		ID:     uuid.UUID(raw[40:56]),
	}, nil
}
