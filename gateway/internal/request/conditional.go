package request

import "strings"

// Match gives the tags that If-Match names, by strong comparison (RFC 9110, section 13.1.1): without weak ones. all says that each
// version that exists will do, as without the header.
func Match(headers []string) (tags []string, all bool) {
	list := strings.Join(headers, ",")
	if len(headers) == 0 || trimSpace(list) == "*" {
		return nil, true
	}
	for given := range splitList(list, ',') {
		if tag := trimSpace(given); strings.HasPrefix(tag, `"`) {
			tags = append(tags, tag)
		}
	}
	return tags, false
}

// NoneMatch says whether If-None-Match names the tag, by weak comparison (RFC 9110,
// section 13.1.2). A value that is no list of tags names none: the caller then gets
// the whole answer.
func NoneMatch(headers []string, etag string) bool {
	list, etag := strings.Join(headers, ","), strings.TrimPrefix(etag, "W/")
	if trimSpace(list) == "*" {
		return true
	}
	for given := range splitList(list, ',') {
		if strings.TrimPrefix(trimSpace(given), "W/") == etag {
			return true
		}
	}
	return false
}
