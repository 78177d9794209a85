// Package auth turns the credential of a request into its principal.
//
// An API key reads
//
//	fq_live_4kZp0XbQm1TtUe7R_8sV…27 characters…Lq0…c1Q2xY
//	│  │    │                │                  │   └ checksum: CRC-32 of all before it, 6 characters
//	│  │    │                │                  └ signature: HMAC of id and secret, 11 characters
//	│  │    │                └ secret: 27 characters of base62, 160 bits
//	│  │    └ key id: 16 characters of base62; may be shown and logged
//	│  └ environment: a label for people and secret scanners
//	└ ForgeQueue
//
// The checksum costs nothing to check, so that malformed keys are refused without a
// look-up; the signature distinguishes keys that a gateway made from invented ones, which
// are refused without a look-up too. What is stored of the
// secret is its HMAC under a secret that only gateways have: an attacker who reads the
// database can neither use nor make a key.
//
// Keys are read from core and cached for at most 30 s (Authenticator).
package auth
