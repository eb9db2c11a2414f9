-- Writes the objects of an encrypted view again, encrypted with another key. Their contents do not change.
--
-- KEYS[1] view    HASH  encryptedBy: the key that all of it was written with
-- KEYS[2] objects HASH  key -> encoded object
-- ARGV[1] ID of the writer: refused when the view carries another
-- ARGV[2] the key that all of it is written with now, or '' while it is not
-- then    two each: key, encoded object
--
-- Answer: number of objects written, or -1 when the writer is another and nothing was done. The script compares nothing,
-- because only the writer changes objects, and it makes no other change during the re-encryption.

if redis.call('HGET', KEYS[1], 'writerId') ~= ARGV[1] then
  return -1
end

local written = 0
for at = 3, #ARGV, 2 do
  if redis.call('HEXISTS', KEYS[2], ARGV[at]) == 1 then
    redis.call('HSET', KEYS[2], ARGV[at], ARGV[at + 1])
    written = written + 1
  end
end
if ARGV[2] ~= '' then
  redis.call('HSET', KEYS[1], 'encryptedBy', ARGV[2])
end
return written
