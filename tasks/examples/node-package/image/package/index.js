module.exports = "hello from the tarball";
