package record

import "time"

// Time is a time as a record holds it: ISO 8601, local, with no offset, and
// with six digits of the second where there are any (spec/run-record.md 2.1).
type Time string

const (
	wholeSecond = "2006-01-02T15:04:05"
	fraction    = ".000000"
)

// TimeOf writes a time in the zone of this host; "" for the zero time.
func TimeOf(t time.Time) Time {
	if t.IsZero() {
		return ""
	}
	t = t.Local().Truncate(time.Microsecond)
	if t.Nanosecond() == 0 {
		return Time(t.Format(wholeSecond))
	}
	return Time(t.Format(wholeSecond + fraction))
}

// Time reads it back; false when it is no time. Records of others may carry an
// offset, or Z.
func (t Time) Time() (time.Time, bool) {
	for _, layout := range []string{wholeSecond, "2006-01-02 15:04:05", "2006-01-02T15:04:05Z07:00"} {
		if parsed, err := time.ParseInLocation(layout, string(t), time.Local); err == nil {
			return parsed, true
		}
	}
	return time.Time{}, false
}
